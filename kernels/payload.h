// Counts a payload in several fragments. A fragment may end within a sample.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_PAYLOAD_H_
#define HISTOGRAM_KERNELS_PAYLOAD_H_

#include <histogram/plan.h>
#include <histogram/tally.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/workload.h"

namespace histogram {

inline Fragment FragmentOf(std::span<const std::byte> samples) {
  return {reinterpret_cast<const uint8_t*>(samples.data()), samples.size()};
}

// Overwrites the plan's counters with those of the payload. REQUIRES: the fragments together hold
// whole samples; counters.size() is plan.counter_count().
void CountPayload(const Plan& plan, std::span<const Fragment> fragments,
                  std::span<uint64_t> counters);
// Adds to the counters instead.
void AddPayload(const Plan& plan, std::span<const Fragment> fragments,
                std::span<uint64_t> counters);
// The same of one piece, on up to `threads` threads, including the calling one. 0: UsableCores().
// Short pieces use fewer.
void AddPayload(const Plan& plan, std::span<const std::byte> samples, uint32_t threads,
                std::span<uint64_t> counters);
// Adds what statistics need of the payload to a tally that has absorbed its counters.
void See(std::span<const Fragment> fragments, Tally& tally);

// The payload in one piece: in place if it has one fragment, else copied to `storage`.
std::span<const std::byte> InOnePiece(std::span<const Fragment> fragments, std::string& storage);

// All statistics of a payload. `counters` are its counters under the plan, `histogram` what they
// fold to. Copies a payload of several fragments for the median (`order`) and quantiles of wide
// types.
Statistics StatisticsOfPayload(const Plan& plan, std::span<const Fragment> fragments,
                               std::span<const uint64_t> counters, const Histogram& histogram,
                               bool order, std::span<const double> quantiles);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_PAYLOAD_H_
