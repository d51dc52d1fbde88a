#include "server/transport/accumulate.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/error.h"
#include "server/transport/admission.h"
#include "server/transport/caller.h"

namespace histogram::server {
namespace {

// One chunk is counted while the next one is read: the job holds the former, `ahead_` the latter.
// Chunks are counted in order, so a snapshot holds exactly what was sent up to its chunk.
class AccumulateStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                               public DrainableStream,
                               public Job {
 public:
  AccumulateStream(ServiceContext& service, grpc::CallbackServerContext* context)
      : service_(service),
        context_(*context),
        started_at_(service.clock.Now()),
        deadline_(DeadlineOf(*context)) {
    error_ = IdentifyCaller(service, *context, caller_info_);
    caller = FairnessId(service, *context, caller_info_);
    if (!error_.ok()) ObserveRefusal(service.observer, error_);
  }

  void Start() {
    self_ = std::static_pointer_cast<AccumulateStream>(shared_from_this());
    service_.observer.StreamOpened(Method::kAccumulate);
    service_.open_calls.fetch_add(1, std::memory_order_relaxed);
    service_.streams.Add(self_);
    absl::MutexLock lock(&mu_);
    Advance();
  }

  // From gRPC.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // From the drain.
  void Drain() override;
  // From the batcher.
  void Done(const absl::Status& status) override;

 private:
  // Replies that may wait for a client that does not read them, before counting pauses.
  static constexpr size_t kRepliesMax = 4;
  enum class Action : uint8_t { kRead, kWrite, kCount, kFinish };

  // Does what the state calls for, after each change of it. As in ComputeManyStream, gRPC's
  // operations are begun under the lock; a chunk is counted without it.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Action> Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Action action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status Accept(std::shared_ptr<ReceivedMessage>& message);
  void CountChunk();
  void FinishCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PushReply(bool final) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AddChunk(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (error_.ok()) error_ = std::move(status);
  }

  ServiceContext& service_;
  grpc::CallbackServerContext& context_;
  const TimeNs started_at_;
  const TimeNs deadline_;
  Caller caller_info_;                          // set in the constructor
  std::shared_ptr<AccumulateStream> self_;      // gRPC's hold on the stream: from Start to OnDone
  std::shared_ptr<AccumulateStream> job_self_;  // the batcher's

  absl::Mutex mu_;
  std::shared_ptr<const Plan> plan_ ABSL_GUARDED_BY(mu_);          // set with the first message
  std::shared_ptr<ReceivedMessage> ahead_ ABSL_GUARDED_BY(mu_);    // read, not yet being counted
  std::shared_ptr<ReceivedMessage> current_ ABSL_GUARDED_BY(mu_);  // being counted
  ValueCounts totals_ ABSL_GUARDED_BY(mu_){};
  uint64_t samples_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t chunks_ ABSL_GUARDED_BY(mu_) = 0;
  Answer answer_ ABSL_GUARDED_BY(mu_);
  std::deque<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // ends the stream
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool in_count_ ABSL_GUARDED_BY(mu_) = false;  // a thread is in CountChunk, and advances after it
  bool last_reply_made_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;

  grpc::ByteBuffer incoming_;  // of the one read under way
  grpc::ByteBuffer outgoing_;  // of the one write under way
};

void AccumulateStream::Advance() {
  if (in_count_) return;
  while (const std::optional<Action> action = Decide()) Perform(*action);
}

std::optional<AccumulateStream::Action> AccumulateStream::Decide() {
  if (finished_) return std::nullopt;
  const bool counting = current_ != nullptr;
  if (!error_.ok()) {
    if (writing_) return std::nullopt;
    finished_ = true;
    return Action::kFinish;
  }
  if (!counting && ahead_ != nullptr && replies_.size() < kRepliesMax) {
    current_ = std::move(ahead_);
    return Action::kCount;
  }
  const bool idle = !counting && ahead_ == nullptr;
  if ((half_closed_ || draining_) && idle && !last_reply_made_) {
    // Everything that was read is counted. A drained stream gets its histogram so far.
    last_reply_made_ = true;
    PushReply(/*final=*/half_closed_);
    if (!error_.ok()) return Decide();
  }
  if (!writing_ && !replies_.empty()) {
    writing_ = true;
    outgoing_.Swap(&replies_.front());
    replies_.pop_front();
    return Action::kWrite;
  }
  if (!writing_ && last_reply_made_) {
    if (draining_ && !half_closed_) {
      error_ = MakeError(absl::StatusCode::kUnavailable,
                         "the server is shutting down; the last reply holds what it had read",
                         {.reason = "DRAINING"});
    }
    finished_ = true;
    return Action::kFinish;
  }
  if (!reading_ && !half_closed_ && !draining_ && ahead_ == nullptr) {
    reading_ = true;
    return Action::kRead;
  }
  return std::nullopt;
}

void AccumulateStream::Perform(Action action) {
  switch (action) {
    case Action::kRead:
      return StartRead(&incoming_);
    case Action::kWrite:
      return StartWrite(&outgoing_);
    case Action::kCount:
      in_count_ = true;
      mu_.Unlock();
      CountChunk();  // Done may come from within
      mu_.Lock();
      in_count_ = false;
      return;
    case Action::kFinish:
      return FinishCall();
  }
}

void AccumulateStream::OnReadDone(bool ok) {
  std::shared_ptr<ReceivedMessage> message;
  absl::Status status;
  if (ok) {
    message = Receive(incoming_);
    incoming_.Clear();
    status = Accept(message);
    if (!status.ok()) ObserveRefusal(service_.observer, status);
  }
  absl::MutexLock lock(&mu_);
  reading_ = false;
  if (!ok) {
    half_closed_ = true;
  } else if (!status.ok()) {
    Fail(std::move(status));
  } else if (!last_reply_made_) {  // else it came while the drain was ending the stream
    ahead_ = std::move(message);
  }
  Advance();
}

absl::Status AccumulateStream::Accept(std::shared_ptr<ReceivedMessage>& message) {
  if (message == nullptr) return UnreadableMessage();
  ParsedRequest& parsed = message->parsed;
  if (absl::Status s = ParseAccumulateRequest(message->fragments, parsed); !s.ok()) return s;
  if (absl::Status s = CheckPayload(parsed, "chunk", service_.config); !s.ok()) return s;
  if (absl::Status s = ChargeCaller(service_, caller_info_, parsed.payload_bytes); !s.ok())
    return s;
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

void AccumulateStream::CountChunk() {
  {
    absl::MutexLock lock(&mu_);
    FillJob(current_, *plan_, deadline_, *this);
    job_self_ = self_;
  }
  // A full queue makes the job wait, and with it the stream: nothing is read beyond the next chunk.
  const auto outcome = service_.batcher.Enqueue(this, Batcher::WhenFull::kWait);
  if (!outcome.ok()) {
    ObserveRefusal(service_.observer, outcome.status());
    Done(outcome.status());
  }
}

void AccumulateStream::Done(const absl::Status& status) {
  const std::shared_ptr<AccumulateStream> keep = std::move(job_self_);
  absl::MutexLock lock(&mu_);
  absl::Status result = AddChunk(status);
  if (!result.ok()) {
    Fail(std::move(result));
  } else if (current_->parsed.snapshot) {
    PushReply(/*final=*/false);
  }
  fragments = {};
  payload_owner.reset();
  current_.reset();
  Advance();
}

absl::Status AccumulateStream::AddChunk(const absl::Status& status) {
  if (!status.ok()) return status;
  if (absl::Status s = service_.verifier.Check(fragments, counts); !s.ok()) {
    service_.observer.IntegrityFailure();
    return s;
  }
  for (uint32_t value = 0; value < kByteValues; ++value) totals_[value] += counts[value];
  samples_ += bytes;
  ++chunks_;
  answer_.receipt.batch = report;
  answer_.receipt.queue_ns = queue_ns;
  return absl::OkStatus();
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
  grpc::ByteBuffer reply =
      EncodeMessage(ReplyEncoder::AccumulateResponse(answer_, plan_->omit_counts, final, chunks_));
  replies_.emplace_back().Swap(&reply);
  service_.observer.StageFinished(Stage::kFold, answer_.receipt.batch.backend,
                                  static_cast<uint64_t>(folded - begin));
}

void AccumulateStream::FinishCall() {
  ReportCall(service_, caller_info_, Method::kAccumulate, error_, samples_,
             static_cast<uint64_t>(service_.clock.Now() - started_at_));
  EchoTrace(caller_info_, context_);
  Finish(error_.ok() ? grpc::Status::OK : FailCall(error_, context_));
}

void AccumulateStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!ok) Fail(absl::CancelledError("the client went away"));
  Advance();
}

void AccumulateStream::OnCancel() {
  cancelled.store(true, std::memory_order_relaxed);
  absl::MutexLock lock(&mu_);
  Fail(absl::CancelledError("the client cancelled the call, or its deadline passed"));
  Advance();
}

void AccumulateStream::OnDone() {
  service_.streams.Remove(self_);
  service_.observer.StreamClosed(Method::kAccumulate);
  service_.open_calls.fetch_sub(1, std::memory_order_relaxed);
  self_.reset();  // the batcher may still hold the job; its end deletes the stream
}

void AccumulateStream::Drain() {
  absl::MutexLock lock(&mu_);
  draining_ = true;
  Advance();
}

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartAccumulate(
    ServiceContext& service, grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<AccumulateStream>(service, context);
  stream->Start();
  return stream.get();  // kept alive by itself until OnDone
}

}  // namespace histogram::server
