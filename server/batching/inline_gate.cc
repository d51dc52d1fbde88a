#include "server/batching/inline_gate.h"

#include <utility>

namespace histogram::server {

InlineGate::InlineGate(bool collects) : collect_at_(collects ? 0 : kNever) {}

bool InlineGate::Enter(size_t size_class) {
  // First inside, then the look: who closes the gate and then finds nobody inside knows that
  // nobody will count.
  cells_.Local().Add(kInside, 1, std::memory_order_seq_cst);
  if ((open_.load(std::memory_order_seq_cst) >> size_class & 1) != 0) return true;
  LeaveUncounted();
  return false;
}

void InlineGate::Leave(size_t size_class, uint64_t bytes) {
  Cells::Shard& mine = cells_.Local();
  mine.Add(kBytes + static_cast<Cell>(size_class), bytes);
  mine.Add(kPayloads + static_cast<Cell>(size_class), 1);
  mine.Add(kInside, -uint64_t{1}, std::memory_order_release);
}

void InlineGate::LeaveUncounted() {
  cells_.Local().Add(kInside, -uint64_t{1}, std::memory_order_release);
}

bool InlineGate::CollectIsDue(TimeNs now) {
  TimeNs at = collect_at_.load(std::memory_order_relaxed);
  return now >= at &&
         collect_at_.compare_exchange_strong(at, now + kCollectNs, std::memory_order_relaxed);
}

InlineGate::Collected InlineGate::Collect(TimeNs now) {
  Collected collected;
  collected.since = std::exchange(collected_at_, now);
  for (size_t c = 0; c < sums_.size(); ++c) {
    const auto cell = static_cast<Cell>(c);
    const Counted sum{.bytes = cells_.Sum(kBytes + cell), .payloads = cells_.Sum(kPayloads + cell)};
    collected.counted[c] = {.bytes = sum.bytes - sums_[c].bytes,
                            .payloads = sum.payloads - sums_[c].payloads};
    sums_[c] = sum;
  }
  return collected;
}

}  // namespace histogram::server
