#include <memory>
#include <utility>

#include "server/base/thresholds.h"
#include "server/request/admit.h"
#include "server/request/stream_state.h"
#include "server/rpc/event_loop.h"
#include "server/service/grpc_bytes.h"
#include "server/service/methods.h"
#include "server/service/served_stream.h"

namespace histogram::server {
namespace {

// One payload of the stream, which has at most kStreamPayloadsMax of them.
struct Item final : StreamJob {
  using StreamJob::StreamJob;
  std::shared_ptr<ReceivedMessage> message;
  std::shared_ptr<const Query> query;
  uint64_t received_bytes = 0;  // of the message
  TimeNs started_at = 0;
  Answer answer;
  grpc::ByteBuffer reply;
};

// Belongs to its loop's thread. ComputeManyState decides what happens when.
class ComputeManyStream final : public ServedStream {
 public:
  ComputeManyStream(ServiceContext& service, EventLoop& loop)
      : ServedStream(service, loop, Method::kComputeMany), state_(kStreamPayloadsMax) {}

  void Drain() override {
    Step(StreamEvent::kDrain);
    StopAwaitingQuota();
  }

 private:
  // From gRPC.
  void OnReceived(bool ok) override {
    if (!ok) return Step(StreamEvent::kReadEnd);
    const uint64_t received_bytes = received().Length();
    std::shared_ptr<ReceivedMessage> message = TakeMessage(received());
    // Nobody can say which item a compressed message is: it ends the stream.
    if (message == nullptr) return Refuse(CompressedMessage());
    Item& item = AcquireJob<Item>();
    item.received_bytes = received_bytes;
    ahead_.Hold(received_bytes);
    item.message = std::move(message);
    item.started_at = service_.clock.Now();
    item.cancelled.store(state_.cancelled(), std::memory_order_relaxed);
    // With a quota the message may have to wait, and then nothing else is read.
    const bool quota = caller_.tenant != nullptr && caller_.tenant->bytes_per_second() > 0;
    const bool read_first = received_bytes >= kReadFirstBytesMin && !quota;
    Step(read_first ? StreamEvent::kLongMessage : StreamEvent::kMessage);
    Handle(item, /*may_wait=*/!ContextOf(service_, loop()).draining);
  }

  void OnGone() override { Step(StreamEvent::kCancelled); }

  void OnCancel() override {
    CancelJobs();
    StopAwaitingQuota();
    Step(StreamEvent::kCancelled);
  }

  void OnDone() override {
    // The client was to get OK, and did not: it went away, or the message that was not read is one
    // over gRPC's own maximum. Or the call guard ended the stream.
    if ((finished_ok_ || memory().ended()) && context().IsCancelled()) {
      caller_.Report(Method::kComputeMany, CancelledCall(memory()), 0, 0);
    }
    ServedStream::OnDone();
  }

  void OnQuota(bool waited) override {
    Item& item = *std::exchange(waiting_, nullptr);
    item.started_at = service_.clock.Now();  // the wait is the caller's, and not the server's
    Handle(item, /*may_wait=*/waited);
    Step(StreamEvent::kRoom);
  }

  StreamActions Decide(StreamEvent event, bool room_ahead, uint64_t /*bytes*/) override {
    return state_.Step(event, room_ahead);
  }

  void End(StreamEnd end) override {
    finished_ok_ = end == StreamEnd::kOk;
    if (finished_ok_) return Finish(grpc::Status::OK);
    if (end == StreamEnd::kCancelled) return Finish(grpc::Status::CANCELLED);
    if (end == StreamEnd::kDraining) {
      refused_ = Draining("the server is shutting down; what it had read is answered");
      service_.observer.Refused(refused_);
    }
    Finish(FailCall(refused_, context()));
  }

  // The stream ends once what was read before is answered.
  void Refuse(absl::Status status) override {
    caller_.Report(Method::kComputeMany, status, 0, 0);
    refused_ = std::move(status);
    Step(StreamEvent::kRefused);
  }

  // `may_wait`: for its caller's quota.
  void Handle(Item& item, bool may_wait) {
    absl::Status status = AdmitItem(item);
    if (may_wait && AwaitQuota(status)) {
      waiting_ = &item;
      return Step(StreamEvent::kWaits);
    }
    if (status.ok()) {
      Submit(item);
    } else {
      item.quota.GiveBack(caller_);
      MakeReply(item, status);
      AddReply(item);
    }
    Step(StreamEvent::kHandled);
  }

  absl::Status AdmitItem(Item& item) {
    item.query.reset();
    absl::Status status = AdmitMessage(*item.message, item.quota, item.query);
    item.bytes = item.message->parsed.payload_bytes;
    if (!status.ok()) return status;
    FillJob(item.message->parsed, item.message, item.query, deadline_, item);
    item.caller = fairness_id_;
    const uint64_t reply_bytes = item.message->parsed.reply_bytes;
    status = HoldReply(memory(), reply_bytes);
    if (status.ok()) item.reply_bytes = reply_bytes;
    return status;
  }

  // Makes the reply to an item that is finished, on any thread, and lets go of what the item held.
  void MakeReply(Item& item, const absl::Status& status) {
    const uint64_t request_id = item.message->parsed.request_id;
    absl::Status result = status;
    TimeNs now = 0;
    if (result.ok()) {
      result = FinishAnswer(service_.verifier, service_.clock, service_.observer, *item.query, item,
                            item.answer, now);
    }
    if (!result.ok()) now = service_.clock.Now();
    const auto duration_ns = static_cast<uint64_t>(now - item.started_at);
    item.answer.receipt.total_ns = duration_ns;
    // Made where it is taken: to assign a byte buffer is to copy it.
    grpc::ByteBuffer reply = result.ok()
                                 ? EncodeMessage({Method::kComputeMany, item.answer,
                                                  item.query->omit_counts, request_id})
                                 : EncodeMessage(EncodeComputeManyError(request_id, result));
    item.reply.Swap(&reply);
    if (result.ok()) {
      caller_.ChargeReply(item.reply.Length());
      service_.observer.StageFinished(Stage::kReply, item.report.backend,
                                      static_cast<uint64_t>(service_.clock.Now() - now));
    }
    caller_.Report(Method::kComputeMany, result, item.bytes, duration_ns);
    item.fragments = {};
    item.payload_owner.reset();
    item.message.reset();
    item.query.reset();
    item.ForgetCounts();
  }

  void OnCounted(StreamJob& job, const absl::Status& status) override {
    if (job.is_small()) {
      job.result = status;
    } else {
      MakeReply(static_cast<Item&>(job), status);
    }
  }

  void OnReturned(StreamJob& job) override {
    auto& item = static_cast<Item&>(job);
    if (item.message != nullptr) MakeReply(item, item.result);
    if (std::exchange(item.waited, false)) Step(StreamEvent::kRoom);
    AddReply(item);
  }

  void AddReply(Item& item) {
    item.quota.Accept(caller_);
    PushReply(item.reply, std::exchange(item.reply_bytes, 0));
    ahead_.LetGo(item.received_bytes);
    FreeJob(item);
    Step(StreamEvent::kReply);
  }

  ComputeManyState state_;
  Item* waiting_ = nullptr;  // for the quota
  absl::Status refused_;     // why nothing more is read from this caller
  bool finished_ok_ = false;
};

}  // namespace

void AwaitComputeMany(ServiceContext& service, EventLoop& loop) {
  new ComputeManyStream(service, loop);  // deletes itself
}

}  // namespace histogram::server
