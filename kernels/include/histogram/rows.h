// Counts rows: parts of a payload, each with a histogram of its own.
//
//   const histogram::RowCut cut{.channels = 3};  // of a picture: a histogram for each colour
//   histogram::CountRows(pixels, *plan, cut, /*threads=*/4,
//                        [&](const histogram::CountedRow& row) { ... });
//
// Sample i belongs to channel i % channels. Each channel is cut into the same stretches. Each
// stretch of each channel is a row: row = stretch * channels + channel. Lengths of stretches are in
// samples of one channel.
//
// Thread-safe: plain data, and functions without state.
#ifndef HISTOGRAM_ROWS_H_
#define HISTOGRAM_ROWS_H_

#include <histogram/plan.h>
#include <histogram/result.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace histogram {

// How a payload is cut into rows.
struct RowCut {
  enum class Kind : uint8_t { kOne, kWindows, kLengths };
  uint32_t channels = 1;  // > 0
  Kind kind = Kind::kOne;
  // kWindows: stretches of `window` > 0 samples, one begins every `step`. step 0: every `window`,
  // and the rest makes a shorter last stretch.
  uint64_t window = 0, step = 0;
  std::vector<uint64_t> lengths = {};  // kLengths: the length of each stretch, in order

  // The number of stretches of a payload of `samples` samples. kBadRows if the cut does not fit the
  // payload; the error names the field ("channels", "lengths").
  Result<uint64_t> Stretches(uint64_t samples) const;
  // The most samples of a row. REQUIRES, also below: Stretches(samples) is ok.
  uint64_t Longest(uint64_t samples) const;
  // The samples of all rows together. They are more than the payload's if windows overlap.
  uint64_t Visited(uint64_t stretches, uint64_t samples) const;
};

struct CountedRow {
  uint64_t row = 0, samples = 0;       // its number, and how many samples it has
  std::span<const uint64_t> counters;  // the plan's; valid during the call
};
using TakeRow = std::function<void(const CountedRow&)>;

// Counts each row on up to `threads` threads, including the calling one. 0: UsableCores(). Short
// payloads use fewer. Calls take(row) once for each row: in order on one thread, else in any order
// and from several threads. REQUIRES: the cut's Stretches are ok for the samples.
void CountRows(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
               uint32_t threads, const TakeRow& take);

// The same by a plan of `bins` bins for each row, which plan_of(row, its extent, its number of
// samples) makes. The extent is nullopt if no sample is finite; its `constant` has no meaning. A
// row without a plan is not counted. plan_of is called as `take` is.
using PlanOfRow = std::function<std::optional<Plan>(uint64_t row, const std::optional<Extent>&,
                                                    uint64_t samples)>;
void CountRows(std::span<const std::byte> samples, SampleType type, uint32_t bins,
               const PlanOfRow& plan_of, const RowCut& cut, uint32_t threads, const TakeRow& take);

}  // namespace histogram

#endif  // HISTOGRAM_ROWS_H_
