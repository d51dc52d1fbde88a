#include <memory>

#include "server/request/admit.h"
#include "server/rpc/call.h"
#include "server/rpc/event_loop.h"
#include "server/service/caller.h"
#include "server/service/grpc_bytes.h"
#include "server/service/methods.h"

namespace histogram::server {
namespace {

// gRPC's call, and the batcher's job.
class ComputeCall final : public UnaryCall, public LoopJob {
 public:
  ComputeCall(ServiceContext& service, EventLoop& loop) : UnaryCall(loop), service_(service) {
    Await(service.methods.Of(Method::kCompute));
  }

  // From the batcher, by any thread.
  void Done(const absl::Status& status) override {
    status_ = status;
    if (status_.ok() && !is_small()) status_ = MakeReply();
    loop().Post(*this);
  }

  // From the intake: the batcher did not take it.
  void Entered(const absl::StatusOr<Batcher::Outcome>& outcome) override {
    status_ = outcome.status();
    Refuse();
  }

  // From the loop.
  void Run() override {
    if (for_lane) loop().HandedBack();
    if (status_.ok() && !reply_.Valid()) status_ = MakeReply();
    Send();
  }

 private:
  void AwaitNext() override { AwaitCompute(service_, loop()); }

  void OnHeaders() override {
    service_.open.Add(ServiceContext::kCalls, 1);
    status_ = caller_info_.Identify(context());
    if (!status_.ok()) {
      started_at_ = service_.clock.Now();
      return Refuse();
    }
    caller = caller_info_.FairnessId();
    memory().SetCaller(caller);
    memory().SetPeer(caller_info_.peer_id);
    Receive();
  }

  // The clock starts when the message has arrived.
  void OnReceived(bool ok) override {
    started_at_ = service_.clock.Now();
    no_message_ = !ok;
    status_ = ok ? Admit() : NoMessage(context(), memory());
    if (!status_.ok()) return Refuse();
    if (ContextOf(service_, loop()).intake.Take(*this, Batcher::WhenFull::kRefuse)) Run();
  }

  void Refuse() {
    quota_.GiveBack(caller_info_);
    Run();
  }

  void OnCancel() override { cancelled.store(true, std::memory_order_relaxed); }

  void OnDone() override {
    const TimeNs now = service_.clock.Now();
    // By now it is known whether it was cancelled.
    if (no_message_) status_ = NoMessage(context(), memory());
    if (status_.ok()) {
      service_.observer.StageFinished(Stage::kReply, report.backend,
                                      static_cast<uint64_t>(now - reply_at_));
    }
    caller_info_.Report(Method::kCompute, status_, bytes,
                        static_cast<uint64_t>(sent_at_ - started_at_));
    service_.open.Add(ServiceContext::kCalls, -uint64_t{1});
  }

  absl::Status Admit() {
    message_ = TakeMessage(received());
    if (message_ == nullptr) return CompressedMessage();
    absl::Status status = server::Admit(
        Method::kCompute, message_->fragments, service_.limits,
        [this](uint64_t size) { return quota_.Take(caller_info_, size); }, message_->parsed,
        query_);
    bytes = message_->parsed.payload_bytes;
    if (!status.ok()) return status;
    FillJob(message_->parsed, message_, query_, DeadlineOf(context()), *this);
    return HoldReply(memory(), message_->parsed.reply_bytes);
  }

  absl::Status MakeReply() {
    Answer answer;
    if (absl::Status bad = FinishAnswer(service_.verifier, service_.clock, service_.observer,
                                        *query_, *this, answer, reply_at_);
        !bad.ok()) {
      return bad;
    }
    answer.receipt.total_ns = static_cast<uint64_t>(reply_at_ - started_at_);
    grpc::ByteBuffer reply = EncodeMessage({Method::kCompute, answer, query_->omit_counts});
    caller_info_.ChargeReply(reply.Length());
    reply_.Swap(&reply);  // to assign it would be to copy it
    return absl::OkStatus();
  }

  // The object may be gone when it returns.
  void Send() {
    quota_.Accept(caller_info_);
    sent_at_ = service_.clock.Now();  // before the write, which a slow reader can prolong
    if (!status_.ok()) return ReplyError(FailCall(status_, context()));
    grpc::ByteBuffer reply;  // lets go of the bytes as soon as they are sent
    reply.Swap(&reply_);
    memory().WriteBegun();
    Reply(reply);
  }

  ServiceContext& service_;
  TimeNs started_at_ = 0;
  TimeNs reply_at_ = 0;
  TimeNs sent_at_ = 0;
  absl::Status status_;
  bool no_message_ = false;
  Caller caller_info_{service_};
  QuotaCharge quota_;
  std::shared_ptr<ReceivedMessage> message_;
  std::shared_ptr<const Query> query_;
  grpc::ByteBuffer reply_;
};

}  // namespace

void AwaitCompute(ServiceContext& service, EventLoop& loop) {
  new ComputeCall(service, loop);  // deletes itself
}

}  // namespace histogram::server
