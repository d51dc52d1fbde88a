// A batch: payloads that a lane executes together, and their outcome.
#ifndef HISTOGRAM_KERNELS_BATCH_H_
#define HISTOGRAM_KERNELS_BATCH_H_

#include <histogram/plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/phases.h"
#include "kernels/workload.h"

namespace histogram {

// One payload, or one part of a large one. The fragments and their bytes stay valid and unchanged
// until the batch is done. A CPU lane reads them in place.
struct BatchItem {
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;  // sum of the fragments' sizes; a whole number of samples
  // MayShareBatch holds for the plans of any two items of a batch, on a GPU HaveSameBins, too.
  Plan plan = {};
  // If set, the backend executes them on the whole payload and ignores `plan` and `counts`. Such an
  // item is alone in its batch.
  std::shared_ptr<Phases> phases = nullptr;
  // The plan's counters, which the backend overwrites. Valid only if the batch's status is OK.
  absl::Span<uint64_t> counts = {};
};

// Whether one kernel counts both. One kernel counts all items of a batch.
bool MayShareBatch(const Plan& a, const Plan& b);
// Whether a launch by either plan counts samples for both: each thread that receives requests makes
// a plan of its own. Always so for bytes. REQUIRES: MayShareBatch.
bool HaveSameBins(const Plan& a, const Plan& b);

// What ran. Times are of the whole batch.
struct BatchReport {
  std::string backend;       // "cpu", "cuda:0"
  std::string kernel;        // registry name
  uint32_t payloads = 0;     // items in the batch
  uint64_t gather_ns = 0;    // copying fragments into a pinned buffer; 0 where nothing is copied
  uint64_t transfer_ns = 0;  // host to device and back; 0 if the device reads host memory in place
  uint64_t kernel_ns = 0;
};

// Has one owner at a time: the backend from Submit to `done`, else the batcher.
struct Batch {
  std::vector<BatchItem> items;
  uint64_t bytes = 0;       // sum over items
  int64_t deadline_ns = 0;  // the backend may give up after this monotonic time; 0: none

  // Filled by the backend.
  absl::Status status;
  BatchReport report;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BATCH_H_
