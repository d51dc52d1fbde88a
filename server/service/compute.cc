#include "server/service/compute.h"

#include <memory>
#include <utility>

#include "server/rpc/call_queues.h"
#include "server/rpc/recycled.h"
#include "server/rpc/served_call.h"
#include "server/service/admission.h"
#include "server/service/caller.h"

namespace histogram::server {
namespace {

// Both sides of the call: gRPC's and the batcher's job. Done and OnCancel may come from different
// threads at once; OnCancel only sets a flag, and only Send, which comes once, finishes.
class ComputeCall final : public UnaryCall,
                          public Job,
                          public Posted,
                          public Recycled<ComputeCall> {
 public:
  ComputeCall(ServiceContext& service, Methods& methods, CallQueue& queue)
      : UnaryCall(queue), service_(service), methods_(methods) {
    Await([&](auto... arguments) { methods.RequestCompute(arguments...); });
  }

  void Done(const absl::Status& status) override {
    status_ = status;
    if (status_.ok()) status_ = MakeReply();
    queue().Post(*this);
  }

  void CountingHere() override { CallQueues::LendToCount(bytes); }

  void Run() override { Send(); }

 private:
  void AwaitNext() override { AwaitCompute(service_, methods_, queue()); }

  void OnCall() override {
    started_at_ = service_.clock.Now();
    service_.open_calls.fetch_add(1, std::memory_order_relaxed);
    // Unless it was counted here, Done may have run, and this object be gone, once it is accepted.
    const absl::StatusOr<Batcher::Outcome> outcome = Accept();
    if (!outcome.ok()) {
      ObserveRefusal(service_.observer, outcome.status());
      status_ = outcome.status();
      Send();
    } else if (*outcome == Batcher::Outcome::kCounted) {
      Done(absl::OkStatus());
    }
  }

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
    UnaryCall::OnDone();
  }

  absl::StatusOr<Batcher::Outcome> Accept() {
    if (absl::Status s = IdentifyCaller(service_, context(), caller_info_); !s.ok()) return s;
    message_ = Receive(request());
    if (message_ == nullptr) return UnreadableMessage();
    ParsedRequest& parsed = message_->parsed;
    if (absl::Status s = ParseComputeRequest(message_->fragments, parsed); !s.ok()) return s;
    bytes = parsed.payload_bytes;
    if (absl::Status s = CheckPayload(parsed, "payload", service_.config); !s.ok()) return s;
    auto plan = MakePlanCached(parsed.spec, service_.plan_limits());
    if (!plan.ok()) return plan.status();
    plan_ = *std::move(plan);
    if (absl::Status s = ChargeCaller(service_, caller_info_, bytes); !s.ok()) return s;
    FillJob(message_, *plan_, DeadlineOf(context()), *this);
    caller = FairnessId(service_, context(), caller_info_);
    return service_.batcher.Enqueue(this, Batcher::WhenFull::kRefuse);
  }

  absl::Status MakeReply() {
    Answer answer;
    if (absl::Status bad = FinishAnswer(service_, *plan_, *this, answer, reply_at_); !bad.ok()) {
      return bad;
    }
    answer.receipt.total_ns = static_cast<uint64_t>(reply_at_ - started_at_);
    grpc::ByteBuffer reply =
        EncodeMessage(ReplyEncoder::ComputeResponse(answer, plan_->omit_counts));
    reply_.Swap(&reply);  // to assign it would be to copy it
    return absl::OkStatus();
  }

  // The object may be gone when it returns.
  void Send() {
    EchoTrace(caller_info_, context());
    if (!status_.ok()) return ReplyError(FailCall(status_, context()));
    grpc::ByteBuffer reply;  // lets go of the bytes as soon as they are sent
    reply.Swap(&reply_);
    Reply(reply);
  }

  ServiceContext& service_;
  Methods& methods_;
  TimeNs started_at_ = 0;
  TimeNs reply_at_ = 0;
  absl::Status status_;
  Caller caller_info_;
  std::shared_ptr<ReceivedMessage> message_;
  std::shared_ptr<const Plan> plan_;
  grpc::ByteBuffer reply_;
};

}  // namespace

void AwaitCompute(ServiceContext& service, Methods& methods, CallQueue& queue) {
  new ComputeCall(service, methods, queue);  // deletes itself
}

}  // namespace histogram::server
