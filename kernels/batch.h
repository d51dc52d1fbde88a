// A batch: payloads that a lane executes together, and their outcome.
#ifndef HISTOGRAM_KERNELS_BATCH_H_
#define HISTOGRAM_KERNELS_BATCH_H_

#include <histogram/plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// Counting whose result is not one row of counters: many rows, or bins over the data's range. A
// backend runs it on the whole payload.
class PayloadWork {
 public:
  virtual ~PayloadWork() = default;
  // Counts the payload and keeps the outcome, an error too. One thread at a time calls it. If a
  // backend fails, another one calls it again, and it starts over.
  virtual void Run(absl::Span<const Fragment> payload) = 0;
  // What ran. REQUIRES: Run has returned.
  virtual std::string kernel() const = 0;
};

// One payload, or one part of a large one. The fragments and their bytes stay valid and unchanged
// until the batch is done. A CPU lane reads them in place.
struct BatchItem {
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;  // sum of the fragments' sizes; a whole number of samples
  // The plan of typed samples; absent: bytes are counted by value. MayShareBatch holds for the
  // plans of any two items of a batch. A GPU's have tables.
  std::optional<Plan> plan = std::nullopt;
  // If set, the backend runs this on the whole payload and ignores `plan` and `counts`. Such an
  // item is alone in its batch.
  std::shared_ptr<PayloadWork> work = nullptr;
  // The backend overwrites it with the counts: of the 256 values; or of the plan's bins, then the
  // samples below, above and NaN. Valid only if the batch's status is OK.
  absl::Span<uint64_t> counts = {};
};

// The size of BatchItem::counts for this plan.
size_t CounterCount(const std::optional<Plan>& plan);
// Bytes of one sample.
uint64_t SampleBytesOf(const std::optional<Plan>& plan);
// Whether one kernel counts both. One kernel counts all items of a batch.
bool MayShareBatch(const std::optional<Plan>& a, const std::optional<Plan>& b);

// What ran. Times are of the whole batch.
struct BatchReport {
  std::string backend;       // "cpu", "cuda:0"
  std::string kernel;        // registry name
  uint32_t payloads = 0;     // items in the batch
  uint64_t gather_ns = 0;    // copying fragments into a pinned buffer; 0 on the cpu
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
