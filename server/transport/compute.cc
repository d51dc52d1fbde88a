#include "server/transport/compute.h"

#include <memory>
#include <utility>

#include "server/transport/admission.h"
#include "server/transport/caller.h"
#include "server/transport/recycled.h"

namespace histogram::server {
namespace {

// Both sides of the call: gRPC's reactor and the batcher's job. Done and OnCancel may come from
// different threads at once; OnCancel only sets a flag, and only Done (or an early refusal)
// finishes.
class ComputeCall final : public grpc::ServerUnaryReactor,
                          public Job,
                          public Recycled<ComputeCall> {
 public:
  ComputeCall(ServiceContext& service, grpc::CallbackServerContext* context,
              grpc::ByteBuffer* response)
      : service_(service),
        context_(*context),
        response_(*response),
        started_at_(service.clock.Now()) {
    service_.open_calls.fetch_add(1, std::memory_order_relaxed);
  }

  void Start(const grpc::ByteBuffer& request) {
    // Unless it was counted here, Done may have run, and this object be gone, once it is accepted.
    const absl::StatusOr<Batcher::Outcome> outcome = Accept(request);
    if (!outcome.ok()) {
      ObserveRefusal(service_.observer, outcome.status());
      Fail(outcome.status());
    } else if (*outcome == Batcher::Outcome::kCounted) {
      Done(absl::OkStatus());
    }
  }

  void Done(const absl::Status& status) override {
    if (!status.ok()) return Fail(status);
    Answer answer;
    if (absl::Status bad = FinishAnswer(service_, *plan_, *this, answer, reply_at_); !bad.ok()) {
      return Fail(bad);
    }
    answer.receipt.total_ns = static_cast<uint64_t>(reply_at_ - started_at_);
    grpc::ByteBuffer reply =
        EncodeMessage(ReplyEncoder::ComputeResponse(answer, plan_->omit_counts));
    response_.Swap(&reply);  // an assignment would copy
    EchoTrace(caller_info_, context_);
    // Once finished, gRPC may delete this object at any moment.
    Finish(grpc::Status::OK);
  }

  void Identify() override { caller = FairnessId(service_, context_, caller_info_); }

  void OnCancel() override { cancelled.store(true, std::memory_order_relaxed); }

  void OnDone() override {
    const TimeNs now = service_.clock.Now();
    if (status_.ok()) {
      service_.observer.StageFinished(Stage::kReply, report.backend,
                                      static_cast<uint64_t>(now - reply_at_));
    }
    ReportCall(service_, caller_info_, Method::kCompute, status_, bytes,
               static_cast<uint64_t>(now - started_at_));
    service_.open_calls.fetch_sub(1, std::memory_order_relaxed);
    delete this;
  }

 private:
  absl::StatusOr<Batcher::Outcome> Accept(const grpc::ByteBuffer& request) {
    if (absl::Status s = IdentifyCaller(service_, context_, caller_info_); !s.ok()) return s;
    message_ = Receive(request);
    if (message_ == nullptr) return UnreadableMessage();
    ParsedRequest& parsed = message_->parsed;
    if (absl::Status s = ParseComputeRequest(message_->fragments, parsed); !s.ok()) return s;
    bytes = parsed.payload_bytes;
    if (absl::Status s = CheckPayload(parsed, "payload", service_.config); !s.ok()) return s;
    auto plan = MakePlanCached(parsed.spec, service_.plan_limits());
    if (!plan.ok()) return plan.status();
    plan_ = *std::move(plan);
    if (absl::Status s = ChargeCaller(service_, caller_info_, bytes); !s.ok()) return s;
    FillJob(message_, *plan_, DeadlineOf(context_), *this);
    return service_.batcher.Enqueue(this, Batcher::WhenFull::kRefuse);
  }

  void Fail(const absl::Status& status) {
    status_ = status;
    EchoTrace(caller_info_, context_);
    Finish(FailCall(status, context_));
  }

  // Whether OnDone and OnCancel run on the thread that is at the call anyway, rather than on one of
  // gRPC's executor: with many calls open that spares a hand-over a call, with few it would keep a
  // thread from reading the next one (ADR 10). Neither waits for anything.
  bool InternalInlineable() override {
    constexpr int64_t kOpenCallsMin = 3;
    return service_.open_calls.load(std::memory_order_relaxed) >= kOpenCallsMin;
  }

  ServiceContext& service_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  const TimeNs started_at_;
  TimeNs reply_at_ = 0;
  absl::Status status_;
  Caller caller_info_;
  std::shared_ptr<ReceivedMessage> message_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace

grpc::ServerUnaryReactor* StartCompute(ServiceContext& service,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) {
  auto* call = new ComputeCall(service, context, response);  // deletes itself in OnDone
  call->Start(*request);
  return call;
}

}  // namespace histogram::server
