// The gate through which a thread counts a small payload itself, without the batcher's lock.
//
// A lock that eight threads take for each small payload costs more than counting it. So the batcher
// publishes what may be counted on the calling thread: Open. A thread asks (Enter), counts, and
// says what it counted (Leave). It writes to cells of its own. The batcher adds them up now and
// then (Collect).
//
// Thread-safe, except Open and Collect: the batcher's lock guards them.
#ifndef HISTOGRAM_SERVER_BATCHING_INLINE_GATE_H_
#define HISTOGRAM_SERVER_BATCHING_INLINE_GATE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "server/base/cells.h"
#include "server/base/clock.h"
#include "server/batching/preference.h"

namespace histogram::server {

class InlineGate {
 public:
  // A set of size classes, one bit each.
  using Classes = uint32_t;
  static constexpr Classes kAll = (Classes{1} << Preference::kClasses) - 1;

  struct Counted {
    uint64_t bytes = 0, payloads = 0;
  };
  struct Collected {
    std::array<Counted, Preference::kClasses> counted;  // of each size class
    TimeNs since = 0;
  };

  // `collects`: Collect is to be called.
  explicit InlineGate(bool collects) : collect_at_(collects ? 0 : kNever) {}

  // From now on only these classes may enter. Threads that are inside finish.
  void Open(Classes classes) { open_.store(classes, std::memory_order_seq_cst); }
  // Whether the calling thread may count a payload of this class. If so, it must leave.
  bool Enter(size_t size_class) {
    // Registers before it tests open_: a thread that closes the gate and sees no one inside then
    // knows that no one enters.
    cells_.Local().Add(kInside, 1, std::memory_order_seq_cst);
    if ((open_.load(std::memory_order_seq_cst) >> size_class & 1) != 0) return true;
    LeaveUncounted();
    return false;
  }
  // The thread counted `bytes`. From here on the gate may be gone.
  void Leave(size_t size_class, uint64_t bytes) {
    Cells::Shard& mine = cells_.Local();
    mine.Add(kBytes + static_cast<Cell>(size_class), bytes);
    mine.Add(kPayloads + static_cast<Cell>(size_class), 1);
    mine.Add(kInside, -uint64_t{1}, std::memory_order_release);
  }
  // The thread could not count the payload. The same.
  void LeaveUncounted() { cells_.Local().Add(kInside, -uint64_t{1}, std::memory_order_release); }
  // The threads inside. Once it is 0 and no class is open, it stays 0 but for threads on their way
  // back from Enter.
  uint64_t inside() const { return cells_.Sum(kInside, std::memory_order_seq_cst); }

  // Whether it is time to Collect. True for one thread only.
  bool CollectIsDue(TimeNs now) {
    TimeNs at = collect_at_.load(std::memory_order_relaxed);
    return now >= at &&
           collect_at_.compare_exchange_strong(at, now + kCollectNs, std::memory_order_relaxed);
  }
  // What was counted since the last call, which was at `since`.
  Collected Collect(TimeNs now) {
    Collected collected;
    collected.since = std::exchange(collected_at_, now);
    for (size_t c = 0; c < sums_.size(); ++c) {
      const auto cell = static_cast<Cell>(c);
      const Counted sum{.bytes = cells_.Sum(kBytes + cell),
                        .payloads = cells_.Sum(kPayloads + cell)};
      collected.counted[c] = {.bytes = sum.bytes - sums_[c].bytes,
                              .payloads = sum.payloads - sums_[c].payloads};
      sums_[c] = sum;
    }
    return collected;
  }

 private:
  static constexpr TimeNs kCollectNs = 2'000'000;  // not measured apart
  static constexpr Cell kInside = 0, kBytes = 1, kPayloads = kBytes + Preference::kClasses;
  static constexpr size_t kCells = kPayloads + Preference::kClasses;

  alignas(128) std::atomic<Classes> open_{0};
  std::atomic<TimeNs> collect_at_;
  Cells cells_{kCells};
  std::array<Counted, Preference::kClasses> sums_{};  // as of collected_at_
  TimeNs collected_at_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_INLINE_GATE_H_
