// Chooses the kernel for a workload: what was forced, else what measured cheapest for workloads of
// its kind, else the kernel of the highest priority.
//
// Used by every backend. A Selector is immutable after it is made: share it between threads freely.
#ifndef HISTOGRAM_KERNELS_TUNING_SELECTOR_H_
#define HISTOGRAM_KERNELS_TUNING_SELECTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/workload.h"

namespace histogram::tuning {

// A kernel that this device can run.
struct Candidate {
  std::string name;
  int priority = 0;                // without measurements the highest that fits is taken
  uint64_t payload_bytes_min = 0;  // without measurements: of smaller payloads it is not the best
};

class Selector {
 public:
  // `rows` is the dispatch table: a row serves the workloads within all of its limits, the one with
  // the tightest limits first. `forced`: the name of the candidate to choose always; empty for
  // none. REQUIRES: each row's kernel, and forced, is a candidate; without forced, one of the
  // candidates has payload_bytes_min 0.
  Selector(std::vector<Candidate> candidates, std::vector<KernelChoice> rows,
           std::string_view forced = {});

  // The index of the candidate for `workload`.
  size_t Choose(const Workload& workload) const;

  // The rows in use, the tightest first; of a forced candidate only its own.
  const std::vector<KernelChoice>& rows() const { return rows_; }

 private:
  std::optional<size_t> Find(std::string_view name) const;
  size_t ByPriority(const Workload& workload) const;

  std::vector<Candidate> candidates_;
  std::vector<KernelChoice> rows_;
  std::vector<size_t> row_candidates_;  // candidate of each row
  std::optional<size_t> forced_;
};

// Predicts costs by the rows of a table that were measured: straight lines between the measured
// payload sizes, for payloads that are counted one after the other.
class CostModel {
 public:
  // What is predicted where nothing was measured.
  struct Assumption {
    double ns_per_byte = 0;
    uint64_t ns_per_payload = 0;
  };

  CostModel(absl::Span<const KernelChoice> rows, const Assumption& assumption);

  // Time of `payload_count` payloads of together `batch_bytes`. Grows with both.
  uint64_t EstimateNs(const Workload& workload) const;

 private:
  struct Point {
    double bytes, ns;
  };
  std::vector<Point> points_;  // both strictly ascending, at least two
};

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_SELECTOR_H_
