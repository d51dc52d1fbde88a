#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/base/thresholds.h"
#include "server/request/admit.h"
#include "server/request/answer.h"
#include "server/request/stream_state.h"
#include "server/request/stream_time.h"
#include "server/rpc/event_loop.h"
#include "server/service/grpc_bytes.h"
#include "server/service/methods.h"
#include "server/service/served_stream.h"

namespace histogram::server {
namespace {

struct Chunk final : StreamJob {
  using StreamJob::StreamJob;
  bool snapshot = false;
  bool counted = false;        // or never will be, as `result` says
  std::vector<Tally> tallies;  // of its samples, once counted
};

// Several chunks may be counted at a time. They are added up in the order of their arrival, so that
// a snapshot holds exactly what was sent up to its chunk. Belongs to its loop's thread.
// AccumulateState decides what happens when.
class AccumulateStream final : public ServedStream {
 public:
  AccumulateStream(ServiceContext& service, EventLoop& loop)
      : ServedStream(service, loop, Method::kAccumulate) {}

  void Drain() override {
    time_.Ended(service_.clock.Now());
    Step(StreamEvent::kDrain);
  }

 private:
  // From gRPC.
  void OnReceived(bool ok) override {
    const TimeNs now = service_.clock.Now();
    if (!ok) {
      time_.Ended(now);
      if (memory().ended()) return Fail(CancelledCall(memory()));
      return Step(StreamEvent::kReadEnd);
    }
    Take(TakeMessage(received()), now);
  }

  void OnGone() override {
    Fail(absl::CancelledError("the client went away"), StreamEvent::kCancelled);
  }

  void OnCancel() override {
    time_.Ended(service_.clock.Now());
    Fail(CancelledCall(memory()), StreamEvent::kCancelled);
  }

  void OnQuota(bool) override { Take(std::move(waiting_), service_.clock.Now()); }

  StreamActions Decide(StreamEvent event, bool room_ahead, uint64_t bytes) override {
    return state_.Step(event, room_ahead, bytes);
  }

  void MakeLastReply() override { Reply(/*final=*/state_.facts().read_end); }

  void End(StreamEnd end) override {
    StopAwaitingQuota();
    if (end == StreamEnd::kDraining) {
      error_ = Draining("the server is shutting down; the last reply holds what it had read");
    }
    Answered(service_.clock.Now());
    caller_.Report(Method::kAccumulate, error_, total_.bytes(), *took_ns_);
    Finish(error_.ok() ? grpc::Status::OK : FailCall(error_, context()));
  }

  // Ends the stream with the first error; chunks that are not yet counted cost no more work.
  void Fail(absl::Status status, StreamEvent event = StreamEvent::kRefused) {
    Answered(service_.clock.Now());
    if (error_.ok()) error_ = std::move(status);
    CancelJobs();
    Step(event);
  }

  void Refuse(absl::Status status) override { Fail(std::move(status)); }

  // Counts a message that has arrived, unless its caller's quota makes it wait.
  void Take(std::shared_ptr<ReceivedMessage> message, TimeNs now) {
    if (state_.closed()) return;  // it came while the stream was ending
    if (message == nullptr) return Refuse(CompressedMessage());
    const bool first = query_ == nullptr;
    QuotaCharge quota;
    absl::Status status = AdmitMessage(*message, quota, query_);
    if (AwaitQuota(status)) {
      waiting_ = std::move(message);
      if (first) query_.reset();
      return;
    }
    time_.Arrived(now);
    if (status.ok() && first) {
      status = HoldTotals(memory(), query_->counter_bytes + message->parsed.row_bytes);
    }
    const uint64_t reply_bytes =
        status.ok() && message->parsed.snapshot ? message->parsed.reply_bytes : 0;
    if (status.ok()) status = HoldReply(memory(), reply_bytes);
    if (!status.ok()) {
      quota.GiveBack(caller_);
      return Refuse(std::move(status));
    }
    Chunk& chunk = Append(std::move(message));
    chunk.reply_bytes = reply_bytes;
    chunk.quota = quota;
    Step(chunk.bytes >= kReadFirstBytesMin ? StreamEvent::kLongMessage : StreamEvent::kMessage,
         chunk.bytes);
    if (!Submit(chunk)) Step(StreamEvent::kHandled);
  }

  Chunk& Append(std::shared_ptr<ReceivedMessage> message) {
    auto& chunk = AcquireJob<Chunk>();
    chunk.snapshot = message->parsed.snapshot;
    FillJob(message->parsed, message, query_, deadline_, chunk, /*adds_up=*/true);
    chunk.caller = fairness_id_;
    chunk.cancelled.store(!error_.ok(), std::memory_order_relaxed);
    chunk.counted = false;
    open_chunks_.push_back(&chunk);
    ahead_.Hold(chunk.bytes);
    return chunk;
  }

  // Recounts a chunk that was picked for it, and lets go of its payload.
  void OnCounted(StreamJob& job, const absl::Status& status) override {
    auto& chunk = static_cast<Chunk&>(job);
    chunk.result = status;
    if (status.ok()) chunk.result = Recount(service_.verifier, service_.observer, chunk);
    if (chunk.result.ok()) chunk.tallies = TakeTallies(*query_, chunk);
    chunk.fragments = {};
    chunk.payload_owner.reset();
  }

  void OnReturned(StreamJob& job) override {
    Counted(static_cast<Chunk&>(job));
    // Wakes the stream: a slot is free, or the chunk's result can be used.
    Step(std::exchange(job.waited, false) ? StreamEvent::kRoom : StreamEvent::kHandled);
  }

  void Counted(Chunk& chunk) {
    chunk.counted = true;
    while (!open_chunks_.empty() && open_chunks_.front()->counted) {
      Chunk& oldest = *open_chunks_.front();
      open_chunks_.pop_front();
      AddUp(oldest);
      oldest.ForgetCounts();
      oldest.tallies.clear();
      FreeJob(oldest);
    }
    if (open_chunks_.empty() && state_.facts().open()) time_.Waits(service_.clock.Now());
  }

  void AddUp(Chunk& chunk) {
    state_.AddedUp(chunk.bytes);
    chunk.quota.Accept(caller_);
    ahead_.LetGo(chunk.bytes);
    if (!chunk.result.ok()) return Fail(std::move(chunk.result));
    if (!error_.ok()) return;
    total_.Add(*query_, chunk, chunk.tallies);
    if (chunk.snapshot) Reply(/*final=*/false, chunk.reply_bytes);
  }

  // Replies with the total of all chunks that were added up. `bytes`: what is held for it.
  void Reply(bool final, uint64_t bytes = 0) {
    if (query_ == nullptr) {  // no message came: the default spec
      auto query = MakeQueryCached({}, service_.limits.query);
      if (!query.ok()) return Refuse(query.status());
      query_ = *std::move(query);
    }
    const TimeNs begin = service_.clock.Now();
    if (absl::Status s = total_.Finish(*query_, answer_); !s.ok()) {
      service_.observer.IntegrityFailure();
      return Fail(std::move(s));
    }
    const TimeNs folded = service_.clock.Now();
    answer_.receipt.total_ns = time_.Busy(folded);
    if (state_.closed()) Answered(folded);
    grpc::ByteBuffer reply =
        EncodeMessage({Method::kAccumulate, answer_, query_->omit_counts, total_.chunks(), final});
    caller_.ChargeReply(reply.Length());
    PushReply(reply, bytes);
    service_.observer.StageFinished(Stage::kFold, answer_.receipt.batch.backend,
                                    static_cast<uint64_t>(folded - begin));
    Step(StreamEvent::kReply);
  }

  // The answer is there. Writing it, which comes next, may have to wait for the caller.
  void Answered(TimeNs now) {
    if (!took_ns_.has_value()) took_ns_ = time_.SinceLast(now);
  }

  AccumulateState state_;
  // Waits for the quota. The state does not know of it: the read is still under way.
  std::shared_ptr<ReceivedMessage> waiting_;
  StreamTime time_;
  std::optional<uint64_t> took_ns_;     // from the last message to the answer
  std::shared_ptr<const Query> query_;  // of the first message
  std::deque<Chunk*> open_chunks_;      // not yet added up, in order of arrival
  Total total_;
  Answer answer_;
  absl::Status error_;  // ends the stream
};

}  // namespace

void AwaitAccumulate(ServiceContext& service, EventLoop& loop) {
  new AccumulateStream(service, loop);  // deletes itself
}

}  // namespace histogram::server
