// When a stream writes its replies: at once while messages come one by one, several together while
// they come faster than they are answered.
//
// A reply that is sent by itself costs a system call and a packet, which is several times what
// counting a small payload costs. gRPC can keep a written reply until the next one is written (a
// buffered write); only a later write sends it. So the newest reply is held back while another
// message is certain to be answered soon: while one is being handled, or has come but is not looked
// at yet, which a read that completes at once tells (Completions).
//
// A client that waits for answers before it goes on would find one side idle while the other works
// if all of its messages were answered together. So half a run is sent at a time: a run is what
// came without a pause, the last one before this one or this one, whichever is longer.
//
// What lanes have counted is ready in groups, whatever came when: the replies of a group are sent
// together.
//
// A state machine without gRPC and without a clock. Thread-compatible.
#ifndef HISTOGRAM_SERVER_RPC_WRITE_COALESCER_H_
#define HISTOGRAM_SERVER_RPC_WRITE_COALESCER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "server/base/clock.h"

namespace histogram::server {

class WriteCoalescer {
 public:
  // What is buffered is sent at the latest with so many replies, or with one that is so much newer.
  static constexpr uint32_t kBufferedMax = 15;
  static constexpr TimeNs kBufferedNsMax = 200'000;

  enum class Step : uint8_t {
    kWait,    // nothing: Arrived or ReadEnded, or Handled, comes soon; then this is asked again
    kBuffer,  // write the oldest reply, which is sent with a later one
    kSend,    // write the oldest reply and send all that is buffered
  };

  // A read was begun. `at_once`: it has completed; Arrived or ReadEnded will be called soon.
  void ReadBegun(bool at_once) { is_there_ = was_there_ = at_once; }
  // The read brought no message.
  void ReadEnded() { is_there_ = false; }
  // The read brought a message. REQUIRES: Handled is called soon.
  void Arrived() {
    is_there_ = false;
    ++run_;
    ++handling_;
  }
  // Its reply is there, or will be at some time.
  void Handled() { --handling_; }

  // All replies that wait now became ready in a group. REQUIRES: Next is asked soon.
  void Grouped(size_t replies) { group_ = replies; }

  // Whether to begin the next read before the next write, which is told then what is there. While
  // messages do not come in runs, the other order is quicker (docs/notes/service.md).
  bool ReadsFirst() const { return was_there_ || run_ > 1 || half_of_last_ > 0; }

  // What to do with the replies that wait to be written; the newest became ready at `newest_at`.
  // REQUIRES: replies > 0, and no write is under way.
  Step Next(size_t replies, TimeNs newest_at) {
    const uint32_t most = std::max(half_of_last_, HalfOf(run_));
    const bool of_group = group_ > 0;
    if (of_group) --group_;
    if (replies == 1) {
      const bool more = is_there_ || handling_ > 0;
      if (more && most > 0) return Step::kWait;
      if (!more) EndRun();
      return Send();
    }
    if (buffered_ == 0) oldest_at_ = newest_at;
    // gRPC is done with a stream's first write, which carries its header, only when it is sent.
    if (!sent_) return Send();
    const uint32_t limit = of_group ? kBufferedMax : most;
    if (buffered_ >= limit || newest_at - oldest_at_ >= kBufferedNsMax) return Send();
    ++buffered_;
    return Step::kBuffer;
  }

 private:
  Step Send() {
    sent_ = true;
    buffered_ = 0;
    return Step::kSend;
  }
  static uint32_t HalfOf(uint64_t run) {
    return run < 2 ? 0 : static_cast<uint32_t>(std::min<uint64_t>(run / 2 - 1, kBufferedMax));
  }
  void EndRun() {
    half_of_last_ = HalfOf(run_);
    run_ = 0;
  }

  uint32_t handling_ = 0;
  bool sent_ = false;  // anything
  size_t group_ = 0;   // of the replies that wait, the oldest: what is left of a group
  uint32_t buffered_ = 0;
  TimeNs oldest_at_ = 0;  // of what is buffered, about
  // Messages of this run; and of the last one the half, without the one that sends the others.
  uint64_t run_ = 0;
  uint32_t half_of_last_ = 0;
  bool is_there_ = false;   // a message, or the end, is there and not yet looked at
  bool was_there_ = false;  // when the last read was begun
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_WRITE_COALESCER_H_
