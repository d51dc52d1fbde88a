// When a loop's thread leaves a message to another thread.
#ifndef HISTOGRAM_SERVER_RPC_HAND_OVER_H_
#define HISTOGRAM_SERVER_RPC_HAND_OVER_H_

#include <atomic>
#include <cstdint>
#include <vector>

namespace histogram::server {

// Whether the clients of a loop send ahead of their answers.
//
// The thread answers a message that it counts itself before it looks at the next one, whatever the
// clients do. So now and then one message is handed over to see whether another comes meanwhile.
// Belongs to the loop's thread.
class SendsAhead {
 public:
  // What was seen holds for this many messages.
  static constexpr uint32_t kMemory = 64;
  // Of the messages that come alone the second is handed over, and then one in this many.
  static constexpr uint32_t kTryEvery = 16;

  // A message came while `others` were handed over and not yet back. Returns whether to hand it
  // over, too.
  bool Arrived(uint64_t others) {
    if (others > 0) {
      remembered_ = kMemory;
    } else if (remembered_ > 0) {
      --remembered_;
    }
    return remembered_ > 0 || alone_++ % kTryEvery == 1;
  }

 private:
  uint32_t remembered_ = 0;
  uint32_t alone_ = 0;
};

// Whether other cores are likely idle: at most half of the loops had much to count a moment ago.
// Thread-safe. Times are nanoseconds of a clock that does not go back.
class CountingLoops {
 public:
  static constexpr int64_t kRecentlyNs = 20'000'000;  // longer than counting a large payload takes

  explicit CountingLoops(size_t loops) : loops_(loops) {}

  // Loop `i` has much to count. Returns whether other cores are likely idle.
  bool Note(size_t i, int64_t now) {
    loops_[i].counted_at.store(now, std::memory_order_relaxed);
    size_t counting = 0;
    for (const Loop& loop : loops_) {
      if (loop.counted_at.load(std::memory_order_relaxed) >= now - kRecentlyNs) ++counting;
    }
    return 2 * counting <= loops_.size();
  }

 private:
  // Each thread writes its loop's: cache lines of its own.
  struct alignas(128) Loop {
    std::atomic<int64_t> counted_at{INT64_MIN};
  };
  std::vector<Loop> loops_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_HAND_OVER_H_
