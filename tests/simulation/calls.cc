#include "tests/simulation/calls.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/world.h"

namespace histogram::server {

// --- What all calls do

SimulatedCall::SimulatedCall(World& world, uint64_t caller, uint64_t messages)
    : to_send(messages),
      world_(world),
      memory_(world.loop()),
      caller_(caller),
      ahead_(world.read_ahead()) {
  memory_.Join(context_);
  memory_.SetCaller(caller);
}

void SimulatedCall::ReadDone() {
  ASSERT_TRUE(reading_);
  reading_ = false;
  // A message may still come with the end of the call.
  if (to_send == 0 || cancelled_ || (ended_ && world_.Chance(70))) return OnReadEnd();
  --to_send;
  OnMessage(world_.NewMessage(*this));
}

void SimulatedCall::WriteDone() {
  ASSERT_TRUE(writing_);
  writing_ = false;
  const uint64_t bytes = std::exchange(outgoing_bytes_, 0);
  memory_.Written(bytes);
  held_ -= bytes;
  OnWritten(!cancelled_);
}

void SimulatedCall::Cancel() {
  if (std::exchange(cancelled_, true)) return;
  OnCancel();
}

void SimulatedCall::StartRead() {
  EXPECT_FALSE(reading_) << "two reads at a time";
  EXPECT_FALSE(ended_) << "a read after Finish";
  reading_ = true;
}

void SimulatedCall::StartWrite() {
  EXPECT_FALSE(writing_) << "two writes at a time";
  EXPECT_FALSE(ended_) << "a write after Finish";
  writing_ = true;
  world_.clock().AdvanceNs(1);  // no two writes begin at the same time: which is older is certain
  writing_since_ = world_.clock().Now();
  held_when_written_ = held_ >= CallGuard::kStep;
  memory_.WriteBegun();
}

void SimulatedCall::AskDry() {
  EXPECT_FALSE(dry_asked_);
  dry_asked_ = true;
}

void SimulatedCall::End(bool answers_all) {
  EXPECT_FALSE(writing_) << "Finish beside a write";
  EXPECT_FALSE(ended_) << "two ends";
  ended_ = true;
  answers_all_ = answers_all;
}

void SimulatedCall::Close() {
  memory_.Leave();
  held_ = 0;
  EXPECT_EQ(ahead_bytes_, 0u) << "messages that nobody holds are still charged";
  for (const auto& [number, message] : messages_) {
    EXPECT_TRUE(!answers_all_ || message->late) << "message " << number << " has no reply";
    world_.ledger().Failed(number);
  }
  messages_.clear();
}

absl::Status SimulatedCall::HoldReply(uint64_t bytes) {
  world_.clock().AdvanceNs(1);  // likewise: it may be what makes a write count
  if (!memory_.Hold(bytes)) return absl::ResourceExhaustedError("unread replies");
  held_ += bytes;
  return absl::OkStatus();
}

absl::Status SimulatedCall::HoldTotals(uint64_t bytes) {
  if (!memory_.HoldTotals(bytes)) return absl::ResourceExhaustedError("totals");
  held_ += bytes;
  return absl::OkStatus();
}

void SimulatedCall::HoldAhead(uint64_t bytes) {
  ahead_.Hold(bytes);
  if (bytes >= kReadAheadBytesMin) ahead_bytes_ += bytes;
  ahead_most_ = std::max(ahead_most_, bytes);
}

void SimulatedCall::LetGoAhead(uint64_t bytes) {
  ahead_.LetGo(bytes);
  if (bytes >= kReadAheadBytesMin) ahead_bytes_ -= bytes;
}

Message& SimulatedCall::Accept(std::unique_ptr<Message> message) {
  message->late = ended_;
  world_.ledger().Accept(message->number, message->payload->size);
  return *messages_.emplace(message->number, std::move(message)).first->second;
}

bool SimulatedCall::Enqueue(Message& message, bool waits) {
  ++away_;
  if (world_.Enqueue(message, waits)) return true;
  --away_;
  return false;
}

void SimulatedCall::CancelJobs() {
  for (const auto& [number, message] : messages_) world_.CancelJob(number);
}

// --- Compute

void ComputeCall::OnMessage(std::unique_ptr<Message> received) {
  Message& message = Accept(std::move(received));
  message.status = HoldReply(message.reply_bytes);
  if (message.status.ok() && Enqueue(message, false)) return;
  Send(message);
}

void ComputeCall::Returned(Message& message) { Send(message); }

void ComputeCall::Send(Message& message) {
  if (!message.status.ok()) return End(false);
  outgoing_bytes_ = message.reply_bytes;
  StartWrite();
}

void ComputeCall::OnWritten(bool ok) {
  if (ok) {
    Message& message = *messages_.begin()->second;
    world_.ledger().Replied(message.number);
    Forget(message);
  }
  End(ok);
}

// --- ComputeMany

void ComputeManyCall::Step(StreamEvent event) {
  const StreamActions actions = state_.Step(event, MayRead());
  if (actions.write) {
    ASSERT_FALSE(replies_.empty()) << "no reply is ready";
    outgoing_ = replies_.front();
    outgoing_bytes_ = std::exchange(outgoing_->reply_bytes, 0);
    replies_.pop_front();
    StartWrite();
  }
  if (actions.read) StartRead();
  if (actions.ask_dry) AskDry();
  // Refused or drained, too: what came before has its answer.
  if (actions.end != StreamEnd::kNone) End(actions.end != StreamEnd::kCancelled);
}

void ComputeManyCall::OnMessage(std::unique_ptr<Message> received) {
  if (world_.Chance(2)) return Step(StreamEvent::kRefused);  // nobody can say whose answer it is
  Message& message = Accept(std::move(received));
  HoldAhead(message.received_bytes);
  Step(message.received_bytes >= kReadFirstBytesMin ? StreamEvent::kLongMessage
                                                    : StreamEvent::kMessage);
  message.status = HoldReply(message.reply_bytes);
  if (!message.status.ok()) message.reply_bytes = 0;
  if (message.status.ok() && Enqueue(message, true)) {
    return Step(message.waited ? StreamEvent::kWaits : StreamEvent::kHandled);
  }
  AddReply(message);
  Step(StreamEvent::kHandled);
}

void ComputeManyCall::Returned(Message& message) {
  if (message.waited) Step(StreamEvent::kRoom);
  AddReply(message);
}

void ComputeManyCall::AddReply(Message& message) {
  replies_.push_back(&message);
  LetGoAhead(message.received_bytes);
  Step(StreamEvent::kReply);
}

void ComputeManyCall::OnWritten(bool ok) {
  if (ok) {
    outgoing_->status.ok() ? world_.ledger().Replied(outgoing_->number)
                           : world_.ledger().Failed(outgoing_->number);
    Forget(*outgoing_);
  } else {
    Step(StreamEvent::kCancelled);
  }
  Step(StreamEvent::kWritten);
}

void ComputeManyCall::OnCancel() {
  CancelJobs();
  Step(StreamEvent::kCancelled);
}

// --- Accumulate

void AccumulateCall::Step(StreamEvent event, uint64_t bytes) {
  const StreamActions actions = state_.Step(event, MayRead(), bytes);
  if (actions.make_last_reply) {
    EXPECT_TRUE(open_.empty()) << "the last reply holds all chunks";
    return PushReply(0);
  }
  if (actions.write) {
    ASSERT_FALSE(replies_.empty()) << "no reply is ready";
    outgoing_ = replies_.front();
    outgoing_bytes_ = outgoing_.bytes;
    replies_.pop_front();
    StartWrite();
  }
  if (actions.read) StartRead();
  if (actions.end == StreamEnd::kNone) return;
  EXPECT_FALSE(actions.ask_dry);
  const bool failed = actions.end != StreamEnd::kOk && actions.end != StreamEnd::kDraining;
  EXPECT_EQ(failed, !error_.ok());
  if (!failed) {
    EXPECT_EQ(outgoing_.messages, added_.size()) << "the last reply misses chunks";
    for (const uint64_t number : added_) {
      world_.ledger().Replied(number);
      messages_.erase(number);
    }
  }
  End(!failed);
}

void AccumulateCall::Fail(absl::Status status, StreamEvent event) {
  if (error_.ok()) error_ = std::move(status);
  CancelJobs();
  Step(event);
}

void AccumulateCall::OnMessage(std::unique_ptr<Message> received) {
  if (state_.closed()) return;  // it came while the stream was ending
  if (world_.Chance(1)) return Fail(absl::InvalidArgumentError("no chunk"));
  absl::Status status;
  if (!std::exchange(begun_, true)) status = HoldTotals(world_.Below(3000));
  if (!received->snapshot) received->reply_bytes = 0;
  if (status.ok()) status = HoldReply(received->reply_bytes);
  if (!status.ok()) return Fail(std::move(status));
  Message& message = Accept(std::move(received));
  open_.push_back(&message);
  HoldAhead(message.received_bytes);
  Step(message.received_bytes >= kReadFirstBytesMin ? StreamEvent::kLongMessage
                                                    : StreamEvent::kMessage,
       message.received_bytes);
  if (Enqueue(message, true)) {
    return Step(message.waited ? StreamEvent::kWaits : StreamEvent::kHandled);
  }
  Counted(message);
  Step(StreamEvent::kHandled);
}

void AccumulateCall::Returned(Message& message) {
  const bool waited = message.waited;
  Counted(message);
  Step(waited ? StreamEvent::kRoom : StreamEvent::kHandled);
}

void AccumulateCall::Counted(Message& message) {
  message.counted = true;
  while (!open_.empty() && open_.front()->counted) {
    Message& oldest = *open_.front();
    open_.pop_front();
    AddUp(oldest);
  }
}

void AccumulateCall::AddUp(Message& message) {
  state_.AddedUp(message.received_bytes);
  LetGoAhead(message.received_bytes);
  if (!message.status.ok()) return Fail(message.status);
  if (!error_.ok()) return;
  EXPECT_TRUE(added_.empty() || added_.back() < message.number) << "added up out of order";
  added_.push_back(message.number);
  if (message.snapshot) PushReply(message.reply_bytes);
}

void AccumulateCall::PushReply(uint64_t bytes) {
  replies_.push_back({added_.size(), bytes});
  Step(StreamEvent::kReply);
}

void AccumulateCall::OnWritten(bool ok) {
  if (!ok) Fail(absl::CancelledError(), StreamEvent::kCancelled);
  Step(StreamEvent::kWritten);
}

}  // namespace histogram::server
