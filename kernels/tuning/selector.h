// Chooses the kernel for a workload: the forced one, else the one that measured cheapest for
// workloads of its kind.
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

class Selector {
 public:
  // `rows` is the dispatch table: a row serves the workloads within all of its limits, the one with
  // the tightest limits first. `kernels`: names. `forced`: that of the kernel to choose always;
  // empty for none. REQUIRES: each row's kernel, and forced, is one of them.
  Selector(absl::Span<const std::string> kernels, std::vector<KernelChoice> rows,
           std::string_view forced = {});

  // The index of the kernel for `workload`; nullopt if no row serves it.
  std::optional<size_t> Choose(const Workload& workload) const;

  // The rows in use, the tightest first; of a forced kernel only its own.
  const std::vector<KernelChoice>& rows() const { return rows_; }

 private:
  std::vector<KernelChoice> rows_;
  std::vector<size_t> row_kernels_;  // the index of each row's kernel
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
