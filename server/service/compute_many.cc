#include "server/service/compute_many.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/error.h"
#include "server/rpc/call_queues.h"
#include "server/rpc/completions.h"
#include "server/rpc/overlap.h"
#include "server/rpc/read_ahead.h"
#include "server/rpc/served_call.h"
#include "server/rpc/write_coalescer.h"
#include "server/service/admission.h"
#include "server/service/caller.h"

namespace histogram::server {
namespace {

// No reply is held for a message of this size or more: counting it may take longer than a reply is
// to be late.
constexpr uint64_t kTakesLongBytesMin = 256 << 10;

class ComputeManyStream;
// One payload of the stream. Items are reused: a stream has at most stream_payloads_max of them.
struct Item final : Job {
  void Admitted() override;
  void Done(const absl::Status& status) override;

  std::shared_ptr<ComputeManyStream> stream;  // set while the batcher has the item
  std::shared_ptr<ReceivedMessage> message;
  std::shared_ptr<const Plan> plan;
  uint64_t received_bytes = 0;  // of the message
  uint64_t ticket = 0;          // of the stream's gate
  TimeNs started_at = 0, answered_at = 0;
  Answer answer;
};

class ComputeManyStream final : public StreamCall, public DrainableStream {
 public:
  ComputeManyStream(ServiceContext& service, Methods& methods, CallQueue& queue)
      : StreamCall(queue), service_(service), methods_(methods), ahead_(service.read_ahead) {}

  void Await() {
    self_ = std::static_pointer_cast<ComputeManyStream>(shared_from_this());
    StreamCall::Await([this](auto... arguments) { methods_.RequestComputeMany(arguments...); });
  }

  void Drain() override {
    absl::MutexLock lock(&mu_);
    draining_ = true;
    Advance(Handle::kElsewhere);
  }

  void ItemAdmitted(const Item& item);
  void ItemDone(Item* item, const absl::Status& status);

 private:
  // From gRPC.
  void AwaitNext() override { AwaitComputeMany(service_, methods_, queue()); }
  void OnCall() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnPosted() override;
  void OnCancel() override;
  void OnDone() override {
    service_.streams.Remove(self_);
    service_.observer.StreamClosed(Method::kComputeMany);
    service_.open_calls.fetch_sub(1, std::memory_order_relaxed);
    self_.reset();  // the batcher may still hold items; the last one deletes the stream
  }
  void OnShutdown() override { self_.reset(); }

  enum class Action : uint8_t {
    kWrite,
    kWriteBuffered,
    kFinishOk,
    kFinishDraining,
    kFinishCancelled,
    kFinishRefused
  };

  // Where completions are handled that come while an operation is begun: kHere obliges the caller
  // to call Completions::Run once it has released the lock.
  enum class Handle : uint8_t { kHere, kElsewhere };

  // Does what the state calls for, after each change of it. gRPC's operations are begun under the
  // lock; it never calls back from within one.
  void Advance(Handle handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (coalescer_.ReadsFirst()) ReadOn(handle);
    while (const std::optional<Action> action = Decide()) Perform(*action, handle);
    ReadOn(handle);
  }
  void ReadOn(Handle handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether to read on; if so, the caller must begin it.
  bool TakeRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Action> Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Action> DecideWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Action action, Handle handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins an operation.
  template <typename Begin>
  Event* Do(Handle handle, Begin&& begin) {
    return Completions::Catch(handle == Handle::kHere ? queue().events().cq() : nullptr,
                              std::forward<Begin>(begin));
  }

  void HandleRead(bool ok);
  absl::StatusOr<Batcher::Outcome> Accept(Item* item);
  // The reply to an item that is finished; lets go of what the item held.
  grpc::ByteBuffer MakeReply(Item& item, const absl::Status& status);
  Item* AcquireItem(uint64_t received_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the reply; the item is free for another message.
  void AddReply(Item* item, grpc::ByteBuffer& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenGate(uint64_t ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ServiceContext& service_;
  Methods& methods_;
  TimeNs deadline_ = 0;                      // set in OnCall
  Caller caller_;                            // likewise
  uint64_t fairness_id_ = 0;                 // likewise
  absl::Status refused_;                     // likewise: why nothing is read from this caller
  std::shared_ptr<ComputeManyStream> self_;  // gRPC's hold on the stream: from Await to OnDone

  absl::Mutex mu_;
  std::vector<std::unique_ptr<Item>> items_ ABSL_GUARDED_BY(mu_);
  std::vector<Item*> free_items_ ABSL_GUARDED_BY(mu_);
  std::deque<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(mu_);
  TimeNs newest_reply_at_ ABSL_GUARDED_BY(mu_) = 0;
  WriteCoalescer coalescer_ ABSL_GUARDED_BY(mu_);
  Overlap overlap_ ABSL_GUARDED_BY(mu_);
  uint32_t unanswered_ ABSL_GUARDED_BY(mu_) = 0;  // taken from the wire, reply not yet written
  ReadAhead::Stream ahead_ ABSL_GUARDED_BY(mu_);
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool no_more_reads_ ABSL_GUARDED_BY(mu_) = false;  // the client half-closed, or went away
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  // Closed from the arrival of a message until it is in the queue: as long as there is no room for
  // it, nothing more is read. The ticket says whose message closed it.
  bool gate_closed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t gate_ticket_ ABSL_GUARDED_BY(mu_) = 0;

  grpc::ByteBuffer incoming_;  // of the one read under way
  grpc::ByteBuffer outgoing_;  // of the one write under way
};

void Item::Admitted() { stream->ItemAdmitted(*this); }

void Item::Done(const absl::Status& status) {
  const std::shared_ptr<ComputeManyStream> keep = std::move(stream);
  keep->ItemDone(this, status);
}

void ComputeManyStream::OnCall() {
  deadline_ = DeadlineOf(context());
  service_.observer.StreamOpened(Method::kComputeMany);
  service_.open_calls.fetch_add(1, std::memory_order_relaxed);
  refused_ = IdentifyCaller(service_, context(), caller_);
  fairness_id_ = FairnessId(service_, context(), caller_);
  if (!refused_.ok()) ObserveRefusal(service_.observer, refused_);
  service_.streams.Add(self_);
  absl::MutexLock lock(&mu_);
  Advance(Handle::kElsewhere);
}

bool ComputeManyStream::TakeRead() {
  if (finished_ || reading_ || no_more_reads_ || draining_ || cancelled_) return false;
  if (!refused_.ok()) return false;
  if (gate_closed_ || unanswered_ >= service_.config.stream_payloads_max) return false;
  if (!ahead_.MayRead()) return false;
  reading_ = true;
  return true;
}

std::optional<ComputeManyStream::Action> ComputeManyStream::Decide() {
  if (finished_ || writing_) return std::nullopt;
  if (!cancelled_ && !replies_.empty()) return DecideWrite();
  if (cancelled_) {
    finished_ = true;
    return Action::kFinishCancelled;
  }
  if (!refused_.ok()) {
    finished_ = true;
    return Action::kFinishRefused;
  }
  if ((no_more_reads_ || draining_) && unanswered_ == 0) {
    finished_ = true;
    return no_more_reads_ ? Action::kFinishOk : Action::kFinishDraining;
  }
  return std::nullopt;
}

std::optional<ComputeManyStream::Action> ComputeManyStream::DecideWrite() {
  const WriteCoalescer::Step step = coalescer_.Next(replies_.size(), newest_reply_at_);
  if (step == WriteCoalescer::Step::kWait) return std::nullopt;
  writing_ = true;
  outgoing_.Swap(&replies_.front());
  replies_.pop_front();
  return step == WriteCoalescer::Step::kBuffer ? Action::kWriteBuffered : Action::kWrite;
}

void ComputeManyStream::ReadOn(Handle handle) {
  if (!TakeRead()) return;
  coalescer_.ReadBegun(Do(handle, [this] { StartRead(&incoming_); }) == read_event());
}

void ComputeManyStream::Perform(Action action, Handle handle) {
  switch (action) {
    case Action::kWrite:
      Do(handle, [this] { StartWrite(outgoing_); });
      return;
    case Action::kWriteBuffered:
      Do(handle, [this] { StartWrite(outgoing_, grpc::WriteOptions().set_buffer_hint()); });
      return;
    case Action::kFinishOk:
      EchoTrace(caller_, context());
      return Finish(grpc::Status::OK);
    case Action::kFinishRefused:
      EchoTrace(caller_, context());
      return Finish(FailCall(refused_, context()));
    case Action::kFinishDraining:
      return Finish(FailCall(MakeError(absl::StatusCode::kUnavailable,
                                       "the server is shutting down; what it had read is answered",
                                       {.reason = "DRAINING"}),
                             context()));
    case Action::kFinishCancelled:
      return Finish(grpc::Status::CANCELLED);
  }
}

Item* ComputeManyStream::AcquireItem(uint64_t received_bytes) {
  if (free_items_.empty()) {
    items_.push_back(std::make_unique<Item>());
    free_items_.push_back(items_.back().get());
  }
  Item* item = free_items_.back();
  free_items_.pop_back();
  item->received_bytes = received_bytes;
  ahead_.Hold(received_bytes);
  return item;
}

void ComputeManyStream::AddReply(Item* item, grpc::ByteBuffer& reply) {
  replies_.emplace_back().Swap(&reply);
  newest_reply_at_ = item->answered_at;
  ahead_.LetGo(item->received_bytes);
  free_items_.push_back(item);
}

void ComputeManyStream::OpenGate(uint64_t ticket) {
  if (gate_ticket_ == ticket) gate_closed_ = false;
}

void ComputeManyStream::OnReadDone(bool ok) {
  HandleRead(ok);
  Completions::Run();
}

void ComputeManyStream::HandleRead(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    no_more_reads_ = true;
    coalescer_.ReadEnded();
    return Advance(Handle::kHere);
  }
  const uint64_t received_bytes = incoming_.Length();
  const bool read_first = received_bytes >= kReadFirstBytesMin;
  const bool takes_long = received_bytes >= kTakesLongBytesMin;
  std::shared_ptr<ReceivedMessage> message = Receive(incoming_);
  Item* item = nullptr;
  uint64_t ticket = 0;
  bool read = false;
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    item = AcquireItem(received_bytes);
    item->cancelled.store(cancelled_, std::memory_order_relaxed);
    item->for_lane = overlap_.Arrived(unanswered_++);
    coalescer_.Arrived();
    read = read_first && TakeRead();
    gate_closed_ = true;
    ticket = item->ticket = ++gate_ticket_;
    if (takes_long) {
      coalescer_.Handled();
      Advance(Handle::kElsewhere);  // what was held until it was known what comes
    }
  }
  item->started_at = service_.clock.Now();
  item->message = std::move(message);
  if (read) StartRead(&incoming_);
  const absl::StatusOr<Batcher::Outcome> outcome = Accept(item);
  // Else the item may already be answered and in use again; its ticket is ours still.
  const bool finished = !outcome.ok() || *outcome == Batcher::Outcome::kCounted;
  grpc::ByteBuffer reply;
  if (finished) {
    if (!outcome.ok()) ObserveRefusal(service_.observer, outcome.status());
    item->stream.reset();
    grpc::ByteBuffer made = MakeReply(*item, outcome.status());
    reply.Swap(&made);
  }
  absl::MutexLock lock(&mu_);
  if (!takes_long) coalescer_.Handled();
  if (finished) AddReply(item, reply);
  if (finished || *outcome != Batcher::Outcome::kWaiting) OpenGate(ticket);
  Advance(Handle::kHere);
}

absl::StatusOr<Batcher::Outcome> ComputeManyStream::Accept(Item* item) {
  item->bytes = 0;
  if (item->message == nullptr) return UnreadableMessage();
  ParsedRequest& parsed = item->message->parsed;
  if (absl::Status s = ParseComputeManyRequest(item->message->fragments, parsed); !s.ok()) return s;
  item->bytes = parsed.payload_bytes;
  if (absl::Status s = CheckPayload(parsed, "request.payload", service_.config); !s.ok()) return s;
  auto plan = MakePlanCached(parsed.spec, service_.plan_limits());
  if (!plan.ok()) return plan.status();
  item->plan = *std::move(plan);
  if (absl::Status s = ChargeCaller(service_, caller_, item->bytes); !s.ok()) return s;
  FillJob(item->message, *item->plan, deadline_, *item);
  item->caller = fairness_id_;
  item->stream = self_;
  // The queues are told in any case.
  item->for_lane = CallQueues::CoresToSpare(item->bytes) && item->for_lane;
  return service_.batcher.Enqueue(item, Batcher::WhenFull::kWait);
}

void ComputeManyStream::ItemAdmitted(const Item& item) {
  absl::MutexLock lock(&mu_);
  OpenGate(item.ticket);
  Advance(Handle::kElsewhere);
}

grpc::ByteBuffer ComputeManyStream::MakeReply(Item& item, const absl::Status& status) {
  const uint64_t request_id = item.message == nullptr ? 0 : item.message->parsed.request_id;
  absl::Status result = status;
  TimeNs now = 0;
  if (result.ok()) result = FinishAnswer(service_, *item.plan, item, item.answer, now);
  if (!result.ok()) now = service_.clock.Now();
  item.answered_at = now;
  const auto duration_ns = static_cast<uint64_t>(now - item.started_at);
  item.answer.receipt.total_ns = duration_ns;
  // Made where it is returned: to assign a byte buffer is to copy it.
  grpc::ByteBuffer reply = result.ok() ? EncodeMessage(ReplyEncoder::ComputeManyResponse(
                                             item.answer, item.plan->omit_counts, request_id))
                                       : EncodeMessage(EncodeComputeManyError(request_id, result));
  if (result.ok()) {
    service_.observer.StageFinished(Stage::kReply, item.report.backend,
                                    static_cast<uint64_t>(service_.clock.Now() - now));
  }
  ReportCall(service_, caller_, Method::kComputeMany, result, item.bytes, duration_ns);
  item.fragments = {};
  item.payload_owner.reset();
  item.message.reset();
  item.plan.reset();
  return reply;
}

void ComputeManyStream::ItemDone(Item* item, const absl::Status& status) {
  grpc::ByteBuffer reply = MakeReply(*item, status);
  {
    absl::MutexLock lock(&mu_);
    OpenGate(item->ticket);
    AddReply(item, reply);
    if (finished_ || !ClaimPost()) return;
  }
  PostClaimed();
}

void ComputeManyStream::OnPosted() {
  {
    absl::MutexLock lock(&mu_);
    coalescer_.Grouped(replies_.size());
    Advance(Handle::kHere);
  }
  Completions::Run();
}

void ComputeManyStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    --unanswered_;
    if (!ok) cancelled_ = true;
    Advance(Handle::kHere);
  }
  Completions::Run();
}

void ComputeManyStream::OnCancel() {
  absl::MutexLock lock(&mu_);
  cancelled_ = true;
  for (const auto& item : items_) item->cancelled.store(true, std::memory_order_relaxed);
  Advance(Handle::kElsewhere);
}

}  // namespace

void AwaitComputeMany(ServiceContext& service, Methods& methods, CallQueue& queue) {
  std::make_shared<ComputeManyStream>(service, methods, queue)->Await();
}

}  // namespace histogram::server
