// When a stream writes its replies: at once while messages come one by one, several together while
// they come faster than they are answered.
//
// A reply that is sent by itself costs a system call and a packet, which is several times what
// counting a small payload costs. gRPC can keep a written reply until the next one is written (a
// buffered write); only a later write sends it. So the newest reply is held back until it is known
// whether another message has arrived. That is told by the order of gRPC's completions: what is
// begun after the next read completes after it, if that read's message was there. Writes are such a
// mark, and where none is under way, an empty operation is (kAsk).
//
// A client that waits for answers before it goes on would find one side idle while the other works
// if all of its messages were answered together. So half a run is sent at a time: a run is what
// came without a pause, the last one before this one or this one, whichever is longer.
//
// Nothing waits for what may never come: a reply is held only while a mark is under way, or while
// another thread handles a message and will ask again. A state machine without gRPC and without a
// clock. Thread-compatible.
#ifndef HISTOGRAM_SERVER_TRANSPORT_WRITE_COALESCER_H_
#define HISTOGRAM_SERVER_TRANSPORT_WRITE_COALESCER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "server/batching/clock.h"

namespace histogram::server {

class WriteCoalescer {
 public:
  // What is buffered is sent at the latest with so many replies, or with one that is so much newer.
  static constexpr uint32_t kBufferedMax = 15;
  static constexpr TimeNs kBufferedNsMax = 200'000;

  enum class Step : uint8_t {
    kWait,    // nothing: Handled or Asked will be called, and then this is asked again
    kAsk,     // begin an empty operation, and call Asked when it is back
    kBuffer,  // write the oldest reply, which is sent with a later one
    kSend,    // write the oldest reply and send all that is buffered
  };

  // A message has come in. REQUIRES: Handled is called soon.
  void Arrived() {
    ++arrived_;
    ++handling_;
  }
  // Its reply is there, or will be at some time.
  void Handled() { --handling_; }

  // Whether to begin the next read before the next write, so that the write is a mark. While
  // messages do not come in runs, the other order is quicker (by a tenth with two in flight), and
  // this one is only tried now and then.
  bool ReadsFirst() const { return run_ > 1 || half_of_last_ > 0 || arrived_ % kTryEvery == 0; }

  // What to do with the replies that wait to be written; the newest became ready at `newest_at`.
  // REQUIRES: replies > 0, and no write is under way.
  Step Next(size_t replies, TimeNs newest_at) {
    const uint32_t most = BufferedMost();
    if (replies == 1 && (asking_ || (most > 0 && handling_ > 0))) return Step::kWait;
    const bool marked = std::exchange(mark_came_back_, false);
    const bool more_came = marked && arrived_ != arrived_at_mark_;
    arrived_at_mark_ = arrived_;
    const bool asked = std::exchange(asked_, false);
    if (replies == 1) {
      if (more_came && most > 0 && !asked) {
        asking_ = true;
        return Step::kAsk;
      }
      if (!marked) EndRun();  // this is the first of another
      ++run_;
      if (marked && !more_came) EndRun();
      return Send();
    }
    ++run_;
    if (buffered_ == 0) oldest_at_ = newest_at;
    if (buffered_ >= most || newest_at - oldest_at_ >= kBufferedNsMax) return Send();
    ++buffered_;
    return Step::kBuffer;
  }

  // The write is done, and so many replies wait.
  void Written(size_t replies) {
    mark_came_back_ = replies > 0;
    asked_ = false;
  }
  // The empty operation is back.
  void Asked() {
    asking_ = false;
    asked_ = mark_came_back_ = true;
  }
  bool asking() const { return asking_; }

 private:
  static constexpr uint64_t kTryEvery = 16;

  Step Send() {
    buffered_ = 0;
    return Step::kSend;
  }
  static uint32_t HalfOf(uint64_t run) {
    return run < 2 ? 0 : static_cast<uint32_t>(std::min<uint64_t>(run / 2 - 1, kBufferedMax));
  }
  uint32_t BufferedMost() const { return std::max(half_of_last_, HalfOf(run_)); }
  void EndRun() {
    if (run_ > 0) half_of_last_ = HalfOf(run_);
    run_ = 0;
  }

  uint64_t arrived_ = 0, arrived_at_mark_ = 0;  // messages; the latter when the last mark was begun
  uint32_t handling_ = 0;
  uint32_t buffered_ = 0;
  TimeNs oldest_at_ = 0;  // of what is buffered, about
  // Replies of this run; and of the last one the half, without the one that sends the others.
  uint64_t run_ = 0;
  uint32_t half_of_last_ = 0;
  bool mark_came_back_ = false;
  bool asking_ = false;  // the empty operation is under way
  bool asked_ = false;   // it came back, and nothing was written since
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_WRITE_COALESCER_H_
