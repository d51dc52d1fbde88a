#include "server/service/accumulate.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/error.h"
#include "server/rpc/call_queues.h"
#include "server/rpc/read_ahead.h"
#include "server/rpc/served_call.h"
#include "server/service/admission.h"
#include "server/service/caller.h"

namespace histogram::server {
namespace {

// Limits of what a stream has taken in and not yet added up. Small chunks are many at a time, so
// that reading need not wait for the lanes that take them in batches (docs/notes/measurements.md);
// of large ones the next is read while one is counted.
constexpr size_t kChunksMax = 32;
constexpr uint64_t kChunkBytesMax = uint64_t{4} << 20;
// Replies that may wait for a client that does not read them, before reading pauses.
constexpr size_t kRepliesMax = 4;

class AccumulateStream;

// One chunk on its way through the batcher. Chunks are reused.
struct Chunk final : Job {
  void Done(const absl::Status& status) override;

  std::shared_ptr<AccumulateStream> stream;  // set while the batcher has the chunk
  bool snapshot = false;
  // Guarded by the stream's lock.
  bool counted = false;
  absl::Status result;
};

// Several chunks may be counted at a time. They are added up in the order of their arrival, so that
// a snapshot holds exactly what was sent up to its chunk.
class AccumulateStream final : public StreamCall, public DrainableStream {
 public:
  AccumulateStream(ServiceContext& service, Methods& methods, CallQueue& queue)
      : StreamCall(queue), service_(service), methods_(methods), ahead_(service.read_ahead) {}

  void Await() {
    self_ = std::static_pointer_cast<AccumulateStream>(shared_from_this());
    StreamCall::Await([this](auto... arguments) { methods_.RequestAccumulate(arguments...); });
  }

  // From the drain.
  void Drain() override;
  // From the batcher.
  void ChunkDone(Chunk* chunk, absl::Status status);

 private:
  enum class Action : uint8_t { kRead, kMakeLastReply, kWrite, kFinish };

  // From gRPC.
  void AwaitNext() override { AwaitAccumulate(service_, methods_, queue()); }
  void OnCall() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnPosted() override;
  void OnCancel() override;
  void OnDone() override;
  void OnShutdown() override { self_.reset(); }

  // Does what the state calls for, after each change of it. As in ComputeManyStream, gRPC's
  // operations are begun under the lock.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (const std::optional<Action> action = Due()) Perform(*action);
  }
  std::optional<Action> Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Action action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status Accept(std::shared_ptr<ReceivedMessage>& message);
  Chunk* Append(const std::shared_ptr<ReceivedMessage>& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Count(Chunk* chunk);
  void AddUp(Chunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PushReply(bool final) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the stream with the first error; chunks that are not yet counted cost no more work.
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ServiceContext& service_;
  Methods& methods_;
  TimeNs started_at_ = 0;                   // set in OnCall
  TimeNs deadline_ = 0;                     // likewise
  Caller caller_;                           // likewise
  uint64_t fairness_id_ = 0;                // likewise
  std::shared_ptr<AccumulateStream> self_;  // gRPC's hold on the stream: from Await to OnDone

  absl::Mutex mu_;
  std::shared_ptr<const Plan> plan_ ABSL_GUARDED_BY(mu_);  // set with the first message
  std::vector<std::unique_ptr<Chunk>> chunks_ ABSL_GUARDED_BY(mu_);
  std::vector<Chunk*> free_chunks_ ABSL_GUARDED_BY(mu_);
  std::deque<Chunk*> open_chunks_ ABSL_GUARDED_BY(mu_);  // not yet added up, in order of arrival
  uint64_t open_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  ReadAhead::Stream ahead_ ABSL_GUARDED_BY(mu_);
  ValueCounts totals_ ABSL_GUARDED_BY(mu_){};
  uint64_t samples_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t chunks_added_ ABSL_GUARDED_BY(mu_) = 0;
  Answer answer_ ABSL_GUARDED_BY(mu_);
  std::deque<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // ends the stream
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool queue_full_ ABSL_GUARDED_BY(mu_) = false;  // a chunk waits for room: read no more
  bool last_reply_made_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;

  grpc::ByteBuffer incoming_;  // of the one read under way
  grpc::ByteBuffer outgoing_;  // of the one write under way
};

void Chunk::Done(const absl::Status& status) {
  const std::shared_ptr<AccumulateStream> keep = std::move(stream);
  keep->ChunkDone(this, status);
}

void AccumulateStream::OnCall() {
  started_at_ = service_.clock.Now();
  deadline_ = DeadlineOf(context());
  service_.observer.StreamOpened(Method::kAccumulate);
  service_.open_calls.fetch_add(1, std::memory_order_relaxed);
  absl::Status refused = IdentifyCaller(service_, context(), caller_);
  fairness_id_ = FairnessId(service_, context(), caller_);
  if (!refused.ok()) ObserveRefusal(service_.observer, refused);
  {
    absl::MutexLock lock(&mu_);
    error_ = std::move(refused);
  }
  service_.streams.Add(self_);
  absl::MutexLock lock(&mu_);
  Advance();
}

bool AccumulateStream::MayRead() const {
  if (reading_ || half_closed_ || draining_ || queue_full_) return false;
  if (replies_.size() >= kRepliesMax || !ahead_.MayRead()) return false;
  return open_chunks_.size() < 2 ||
         (open_chunks_.size() < kChunksMax && open_bytes_ < kChunkBytesMax);
}

std::optional<AccumulateStream::Action> AccumulateStream::Due() const {
  if (finished_) return std::nullopt;
  if (!error_.ok()) return writing_ ? std::nullopt : std::optional(Action::kFinish);
  // Everything that was read is counted. A drained stream gets its histogram so far.
  const bool all_counted = (half_closed_ || draining_) && open_chunks_.empty();
  if (all_counted && !last_reply_made_) return Action::kMakeLastReply;
  if (!writing_ && !replies_.empty()) return Action::kWrite;
  if (!writing_ && last_reply_made_) return Action::kFinish;
  if (MayRead()) return Action::kRead;
  return std::nullopt;
}

void AccumulateStream::Perform(Action action) {
  switch (action) {
    case Action::kRead:
      reading_ = true;
      return StartRead(&incoming_);
    case Action::kMakeLastReply:
      last_reply_made_ = true;
      return PushReply(/*final=*/half_closed_);
    case Action::kWrite:
      writing_ = true;
      outgoing_.Swap(&replies_.front());
      replies_.pop_front();
      return StartWrite(outgoing_);
    case Action::kFinish:
      return FinishCall();
  }
}

void AccumulateStream::OnReadDone(bool ok) {
  std::shared_ptr<ReceivedMessage> message;
  absl::Status status;
  if (ok) {
    message = Receive(incoming_);
    status = Accept(message);
    if (!status.ok()) ObserveRefusal(service_.observer, status);
  }
  Chunk* chunk = nullptr;
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    if (!ok) {
      half_closed_ = true;
    } else if (!status.ok()) {
      Fail(std::move(status));
    } else if (!last_reply_made_) {  // else it came while the drain was ending the stream
      chunk = Append(message);
    }
    if (chunk == nullptr || chunk->bytes >= kReadFirstBytesMin) Advance();
  }
  if (chunk != nullptr) Count(chunk);
}

absl::Status AccumulateStream::Accept(std::shared_ptr<ReceivedMessage>& message) {
  if (message == nullptr) return UnreadableMessage();
  ParsedRequest& parsed = message->parsed;
  if (absl::Status s = ParseAccumulateRequest(message->fragments, parsed); !s.ok()) return s;
  if (absl::Status s = CheckPayload(parsed, "chunk", service_.config); !s.ok()) return s;
  if (absl::Status s = ChargeCaller(service_, caller_, parsed.payload_bytes); !s.ok()) return s;
  {
    absl::MutexLock lock(&mu_);
    if (plan_ != nullptr) return absl::OkStatus();  // the spec is read from the first message only
  }
  auto plan = MakePlanCached(parsed.spec, service_.plan_limits());
  if (!plan.ok()) return plan.status();
  absl::MutexLock lock(&mu_);
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

Chunk* AccumulateStream::Append(const std::shared_ptr<ReceivedMessage>& message) {
  if (free_chunks_.empty()) {
    chunks_.push_back(std::make_unique<Chunk>());
    free_chunks_.push_back(chunks_.back().get());
  }
  Chunk* const chunk = free_chunks_.back();
  free_chunks_.pop_back();
  FillJob(message, *plan_, deadline_, *chunk);
  chunk->caller = fairness_id_;
  chunk->cancelled.store(!error_.ok(), std::memory_order_relaxed);
  chunk->stream = self_;
  chunk->snapshot = message->parsed.snapshot;
  chunk->counted = false;
  // The first one may be the only one, and would wait for a lane to wake.
  const bool first = chunks_added_ == 0 && open_chunks_.empty();
  chunk->for_lane = CallQueues::CoresToSpare(chunk->bytes) && !first;
  open_chunks_.push_back(chunk);
  open_bytes_ += chunk->bytes;
  ahead_.Hold(chunk->bytes);
  return chunk;
}

void AccumulateStream::Count(Chunk* chunk) {
  // A full queue makes the chunk wait, and with it the stream.
  const auto outcome = service_.batcher.Enqueue(chunk, Batcher::WhenFull::kWait);
  if (!outcome.ok()) {
    ObserveRefusal(service_.observer, outcome.status());
    return chunk->Done(outcome.status());
  }
  if (*outcome == Batcher::Outcome::kCounted) return chunk->Done(absl::OkStatus());
  absl::MutexLock lock(&mu_);
  // The chunk may be done already; then another one is, or will be.
  if (*outcome == Batcher::Outcome::kWaiting && !open_chunks_.empty()) queue_full_ = true;
  Advance();
}

void AccumulateStream::ChunkDone(Chunk* chunk, absl::Status status) {
  if (status.ok()) {
    status = service_.verifier.Check(chunk->fragments, chunk->counts);
    if (!status.ok()) service_.observer.IntegrityFailure();
  }
  chunk->fragments = {};
  chunk->payload_owner.reset();
  {
    absl::MutexLock lock(&mu_);
    chunk->counted = true;
    chunk->result = std::move(status);
    queue_full_ = false;
    while (!open_chunks_.empty() && open_chunks_.front()->counted) {
      AddUp(*open_chunks_.front());
      free_chunks_.push_back(open_chunks_.front());
      open_chunks_.pop_front();
    }
    if (!Due().has_value() || !ClaimPost()) return;
  }
  PostClaimed();
}

void AccumulateStream::OnPosted() {
  absl::MutexLock lock(&mu_);
  Advance();
}

void AccumulateStream::AddUp(Chunk& chunk) {
  open_bytes_ -= chunk.bytes;
  ahead_.LetGo(chunk.bytes);
  if (!chunk.result.ok()) return Fail(std::move(chunk.result));
  if (!error_.ok()) return;
  for (uint32_t value = 0; value < kByteValues; ++value) totals_[value] += chunk.counts[value];
  samples_ += chunk.bytes;
  ++chunks_added_;
  answer_.receipt.batch = chunk.report;
  answer_.receipt.queue_ns = chunk.queue_ns;
  if (chunk.snapshot) PushReply(/*final=*/false);
}

void AccumulateStream::Fail(absl::Status status) {
  if (error_.ok()) error_ = std::move(status);
  for (const auto& chunk : chunks_) chunk->cancelled.store(true, std::memory_order_relaxed);
}

void AccumulateStream::PushReply(bool final) {
  if (plan_ == nullptr) plan_ = std::make_shared<Plan>();  // no message came: the default spec
  const TimeNs begin = service_.clock.Now();
  if (absl::Status s = MakeAnswer(*plan_, totals_, samples_, answer_); !s.ok()) {
    service_.observer.IntegrityFailure();
    Fail(std::move(s));
    return;
  }
  const TimeNs folded = service_.clock.Now();
  answer_.receipt.total_ns = static_cast<uint64_t>(folded - started_at_);
  grpc::ByteBuffer reply = EncodeMessage(
      ReplyEncoder::AccumulateResponse(answer_, plan_->omit_counts, final, chunks_added_));
  replies_.emplace_back().Swap(&reply);
  service_.observer.StageFinished(Stage::kFold, answer_.receipt.batch.backend,
                                  static_cast<uint64_t>(folded - begin));
}

void AccumulateStream::FinishCall() {
  finished_ = true;
  if (error_.ok() && draining_ && !half_closed_) {
    error_ = MakeError(absl::StatusCode::kUnavailable,
                       "the server is shutting down; the last reply holds what it had read",
                       {.reason = "DRAINING"});
  }
  ReportCall(service_, caller_, Method::kAccumulate, error_, samples_,
             static_cast<uint64_t>(service_.clock.Now() - started_at_));
  EchoTrace(caller_, context());
  Finish(error_.ok() ? grpc::Status::OK : FailCall(error_, context()));
}

void AccumulateStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!ok) Fail(absl::CancelledError("the client went away"));
  Advance();
}

void AccumulateStream::OnCancel() {
  absl::MutexLock lock(&mu_);
  Fail(absl::CancelledError("the client cancelled the call, or its deadline passed"));
  Advance();
}

void AccumulateStream::OnDone() {
  service_.streams.Remove(self_);
  service_.observer.StreamClosed(Method::kAccumulate);
  service_.open_calls.fetch_sub(1, std::memory_order_relaxed);
  self_.reset();  // the batcher may still hold chunks; the last one deletes the stream
}

void AccumulateStream::Drain() {
  absl::MutexLock lock(&mu_);
  draining_ = true;
  Advance();
}

}  // namespace

void AwaitAccumulate(ServiceContext& service, Methods& methods, CallQueue& queue) {
  std::make_shared<AccumulateStream>(service, methods, queue)->Await();
}

}  // namespace histogram::server
