#include "server/request/stream_state.h"

#include <cassert>

namespace histogram::server {

// --- ComputeMany

StreamActions ComputeManyState::Step(StreamEvent event, bool room_ahead) {
  switch (event) {
    case StreamEvent::kOpened:
      break;
    case StreamEvent::kMessage:
    case StreamEvent::kLongMessage:
      assert(reading_);
      reading_ = false;
      handling_ = event == StreamEvent::kMessage;
      ++unanswered_;
      break;
    case StreamEvent::kWaits:
      ++waiting_;
      handling_ = false;
      break;
    case StreamEvent::kHandled:
      handling_ = false;
      break;
    case StreamEvent::kRoom:
      assert(waiting_ > 0);
      --waiting_;
      break;
    case StreamEvent::kReply:
      assert(replies_ < unanswered_);
      ++replies_;
      if (asked_dry_ && replies_ > 1) joined_ = kMemory;
      break;
    case StreamEvent::kDry:
      asked_dry_ = false;
      flushing_ = replies_ > 0;
      if (joined_ > 0) --joined_;
      break;
    case StreamEvent::kWritten:
      assert(writing_ && unanswered_ > 0);
      writing_ = false;
      --unanswered_;
      break;
    case StreamEvent::kReadEnd:
      reading_ = false;
      read_end_ = true;
      break;
    case StreamEvent::kRefused:
      reading_ = false;
      refused_ = true;
      break;
    case StreamEvent::kCancelled:
      cancelled_ = true;
      break;
    case StreamEvent::kDrain:
      draining_ = true;
      break;
  }
  StreamActions actions;
  if (ended_) return actions;
  if (room_ahead && MayRead()) actions.read = reading_ = true;
  if (!writing_ && !cancelled_ && replies_ > 0) DecideWrite(actions);
  if (!writing_) actions.end = DecideEnd();
  ended_ = actions.end != StreamEnd::kNone;
  return actions;
}

bool ComputeManyState::MayRead() const {
  return !reading_ && !read_end_ && !refused_ && !draining_ && !cancelled_ && !handling_ &&
         waiting_ == 0 && unanswered_ < unanswered_max_;
}

void ComputeManyState::DecideWrite(StreamActions& actions) {
  // The newest reply waits for others to join it.
  if (replies_ == 1 && !flushing_) {
    if (asked_dry_) return;
    if (joined_ > 0 || alone_++ % kTryEvery == 1) {
      actions.ask_dry = asked_dry_ = true;
      return;
    }
  }
  actions.write = writing_ = true;
  actions.keep = replies_ > 1 && has_sent_ && kept_ < kKeptMax;
  kept_ = actions.keep ? kept_ + 1 : 0;
  has_sent_ = true;
  if (--replies_ == 0) flushing_ = false;
}

StreamEnd ComputeManyState::DecideEnd() const {
  if (cancelled_) return StreamEnd::kCancelled;
  if (unanswered_ > 0) return StreamEnd::kNone;
  if (refused_) return StreamEnd::kRefused;
  if (read_end_) return StreamEnd::kOk;
  return draining_ ? StreamEnd::kDraining : StreamEnd::kNone;
}

// --- Accumulate

StreamActions AccumulateState::Step(StreamEvent event, bool room_ahead, uint64_t bytes) {
  switch (event) {
    case StreamEvent::kOpened:
    case StreamEvent::kDry:
      break;
    case StreamEvent::kMessage:
    case StreamEvent::kLongMessage:
      assert(reading_);
      reading_ = false;
      handling_ = event == StreamEvent::kMessage;
      ++chunks_;
      chunk_bytes_ += bytes;
      break;
    case StreamEvent::kWaits:
      ++waiting_;
      handling_ = false;
      break;
    case StreamEvent::kHandled:
      handling_ = false;
      break;
    case StreamEvent::kRoom:
      assert(waiting_ > 0);
      --waiting_;
      break;
    case StreamEvent::kReply:
      ++replies_;
      break;
    case StreamEvent::kWritten:
      assert(writing_);
      writing_ = false;
      break;
    case StreamEvent::kReadEnd:
      reading_ = false;
      half_closed_ = true;
      break;
    case StreamEvent::kRefused:
      reading_ = handling_ = false;
      failed_ = true;
      break;
    case StreamEvent::kCancelled:
      failed_ = true;
      break;
    case StreamEvent::kDrain:
      draining_ = true;
      break;
  }
  StreamActions actions;
  if (ended_) return actions;
  if (failed_) {
    if (!writing_) actions.end = StreamEnd::kRefused;
  } else {
    // A drained stream gets its histogram so far.
    if ((half_closed_ || draining_) && chunks_ == 0 && !handling_ && !last_reply_made_) {
      actions.make_last_reply = last_reply_made_ = true;
      return actions;
    }
    if (!writing_ && replies_ > 0) {
      --replies_;
      actions.write = writing_ = true;
    } else if (!writing_ && last_reply_made_) {
      actions.end = half_closed_ ? StreamEnd::kOk : StreamEnd::kDraining;
    }
    if (room_ahead && MayRead()) actions.read = reading_ = true;
  }
  ended_ = actions.end != StreamEnd::kNone;
  return actions;
}

bool AccumulateState::MayRead() const {
  if (reading_ || handling_ || half_closed_ || draining_ || waiting_ > 0) return false;
  if (replies_ >= kRepliesMax) return false;
  return chunks_ < 2 || (chunks_ < kChunksMax && chunk_bytes_ < kChunkBytesMax);
}

}  // namespace histogram::server
