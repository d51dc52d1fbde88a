#include "server/request/stream_state.h"

#include <cassert>

namespace histogram::server {

void StreamFacts::Add(StreamEvent event) {
  using enum StreamEvent;
  const auto is = [event](auto... any) { return ((event == any) || ...); };
  assert(reading || !is(kMessage, kLongMessage));
  assert(writing || !is(kWritten));
  assert(waiting > 0 || !is(kRoom));
  if (is(kMessage, kLongMessage, kReadEnd, kRefused)) reading = false;
  if (is(kLongMessage, kWaits, kHandled, kRefused)) handling = false;
  if (is(kMessage)) handling = true;
  if (is(kWaits)) ++waiting;
  if (is(kRoom)) --waiting;
  if (is(kReply)) ++replies;
  if (is(kWritten)) writing = false;
  read_end |= is(kReadEnd);
  refused |= is(kRefused);
  cancelled |= is(kCancelled);
  draining |= is(kDrain);
}

// --- ComputeMany

StreamActions ComputeManyState::Step(StreamEvent event, bool room_ahead) {
  facts_.Add(event);
  if (event == StreamEvent::kMessage || event == StreamEvent::kLongMessage) ++unanswered_;
  if (event == StreamEvent::kReply && asked_dry_ && facts_.replies > 1) joined_ = kMemory;
  if (event == StreamEvent::kDry) {
    asked_dry_ = false;
    flushing_ = facts_.replies > 0;
    if (joined_ > 0) --joined_;
  }
  if (event == StreamEvent::kWritten) --unanswered_;
  assert(facts_.replies <= unanswered_);
  StreamActions actions;
  if (facts_.ended) return actions;
  if (room_ahead && facts_.may_read() && unanswered_ < unanswered_max_) {
    actions.read = facts_.reading = true;
  }
  if (!facts_.writing && !facts_.cancelled && facts_.replies > 0) DecideWrite(actions);
  if (!facts_.writing) actions.end = DecideEnd();
  facts_.ended = actions.end != StreamEnd::kNone;
  return actions;
}

void ComputeManyState::DecideWrite(StreamActions& actions) {
  // The newest reply waits for others to join it.
  if (facts_.replies == 1 && !flushing_) {
    if (asked_dry_) return;
    if (joined_ > 0 || alone_++ % kTryEvery == 1) {
      actions.ask_dry = asked_dry_ = true;
      return;
    }
  }
  actions.write = facts_.writing = true;
  actions.keep = facts_.replies > 1 && has_sent_ && kept_ < kKeptMax;
  kept_ = actions.keep ? kept_ + 1 : 0;
  has_sent_ = true;
  if (--facts_.replies == 0) flushing_ = false;
}

StreamEnd ComputeManyState::DecideEnd() const {
  if (facts_.cancelled) return StreamEnd::kCancelled;
  if (unanswered_ > 0) return StreamEnd::kNone;
  if (facts_.refused) return StreamEnd::kRefused;
  if (facts_.read_end) return StreamEnd::kOk;
  return facts_.draining ? StreamEnd::kDraining : StreamEnd::kNone;
}

// --- Accumulate

StreamActions AccumulateState::Step(StreamEvent event, bool room_ahead, uint64_t bytes) {
  facts_.Add(event);
  if (event == StreamEvent::kMessage || event == StreamEvent::kLongMessage) {
    ++chunks_;
    chunk_bytes_ += bytes;
  }
  StreamActions actions;
  if (facts_.ended) return actions;
  if (facts_.failed()) {
    if (!facts_.writing) actions.end = StreamEnd::kRefused;
  } else {
    // A drained stream gets its histogram so far.
    if (!facts_.open() && chunks_ == 0 && !facts_.handling && !last_reply_made_) {
      actions.make_last_reply = last_reply_made_ = true;
      return actions;
    }
    if (!facts_.writing && facts_.replies > 0) {
      --facts_.replies;
      actions.write = facts_.writing = true;
    } else if (!facts_.writing && last_reply_made_) {
      actions.end = facts_.read_end ? StreamEnd::kOk : StreamEnd::kDraining;
    }
    if (room_ahead && facts_.may_read() && RoomForChunks()) actions.read = facts_.reading = true;
  }
  facts_.ended = actions.end != StreamEnd::kNone;
  return actions;
}

bool AccumulateState::RoomForChunks() const {
  if (facts_.replies >= kRepliesMax) return false;
  return chunks_ < 2 || (chunks_ < kChunksMax && chunk_bytes_ < kChunkBytesMax);
}

}  // namespace histogram::server
