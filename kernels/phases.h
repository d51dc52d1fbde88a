// Counting that needs a payload more than once, or whose result is not one row of counters.
//
// A lane executes the phases of one payload in turn. The outcome of a phase decides on the next
// one. The maker of the phases keeps their outcome; backends only execute them.
#ifndef HISTOGRAM_KERNELS_PHASES_H_
#define HISTOGRAM_KERNELS_PHASES_H_

#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "kernels/rows.h"
#include "kernels/workload.h"

namespace histogram {

// Finds the least and the greatest sample.
struct ExtentPhase {
  SampleType type = SampleType::kF32;
};
// Counts all samples into one row of counters.
struct CountPhase {
  Plan plan;
  std::span<uint64_t> counters;  // overwritten
};
// Counts each row into counters of its own.
struct RowsPhase {
  SampleType type = SampleType::kU8;
  const RowCut* cut = nullptr;
  std::optional<Plan> plan;   // of all rows; without it PlanOver tells the plan of each
  bool reads_samples = true;  // if not, Counted gets as many bytes, but of any samples
};
using Phase = std::variant<ExtentPhase, CountPhase, RowsPhase>;

// What phases need of a backend, or the most that a backend has. All backends execute ExtentPhase,
// CountPhase, and RowsPhase without a plan.
struct PhaseLimits {
  uint64_t row_bins = 0;     // of a RowsPhase with a plan; 0: none
  uint64_t pixel_bytes = 0;  // of the same: a sample of each channel

  bool Cover(const PhaseLimits& needs) const {
    return needs.row_bins <= row_bins && needs.pixel_bytes <= pixel_bytes;
  }
  friend bool operator==(const PhaseLimits&, const PhaseLimits&) = default;
};
inline constexpr PhaseLimits kAllPhases = {.row_bins = UINT64_MAX, .pixel_bytes = UINT64_MAX};

// The phases of one payload. One thread at a time uses it. The objects that phases point to live as
// long.
class Phases {
 public:
  virtual ~Phases() = default;
  // The same from the beginning: for another backend, where one has failed and may still use this.
  virtual std::shared_ptr<Phases> Anew() const = 0;
  // Any thread may call it at any time; the answer is always the same.
  virtual PhaseLimits needs() const { return {}; }

  // The next phase, or nullopt if the count is done or has failed. The backend has delivered the
  // outcome of the phase before. `payload` is the whole payload.
  virtual std::optional<Phase> Next(std::span<const Fragment> payload) = 0;
  // The outcome of an ExtentPhase; nullopt if there are no samples. If not all of them are finite,
  // it is nullopt, or its `finite` is false and the rest has no meaning. A GPU does not set
  // `negative_zero`.
  virtual void Found(const std::optional<Extent>& extent) = 0;
  // In a RowsPhase without a plan, before each row is counted: the plan over its extent, which is
  // as Found gets it. Nullopt ends the phase.
  virtual std::optional<Plan> PlanOver(uint64_t row, const std::optional<Extent>& extent,
                                       std::span<const std::byte> samples) = 0;
  // The outcome of a RowsPhase, row by row and in order: the plan's counters of the row's samples.
  // Both are valid during the call.
  virtual void Counted(uint64_t row, std::span<const uint64_t> counters,
                       std::span<const std::byte> samples) = 0;
};

// Executes the phases on the calling thread. Returns the name of the kernel that counted.
std::string RunPhases(Phases& phases, std::span<const Fragment> payload);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_PHASES_H_
