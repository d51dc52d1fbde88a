// Payloads that are executed in one go, and what became of them.
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
#include "kernels/payload_work.h"
#include "kernels/workload.h"

namespace histogram {

// One payload (or one part of a large one). The fragments and what they point to stay valid and
// unchanged until the batch is done; they are read, never copied, by a CPU lane.
struct BatchItem {
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;  // sum of the fragments' sizes; a whole number of samples
  // What samples are counted by; absent: bytes, by their value. MayShareBatch of all items' plans.
  std::optional<Plan> plan = std::nullopt;
  // What is run instead, on the payload as a whole; then `plan` and `counts` are not looked at.
  // Such an item is alone in its batch.
  std::shared_ptr<PayloadWork> work = nullptr;
  // Where the backend writes (overwrites) the counts: of the 256 values, or of the plan's bins and
  // behind them the samples below, above and NaN. Defined only when the batch's status is OK.
  absl::Span<uint64_t> counts = {};
};

// Counters that an item is counted into: of each value, or the plan's bins, below, above and NaN.
size_t CounterCount(const std::optional<Plan>& plan);
// Bytes of one sample.
uint64_t SampleBytesOf(const std::optional<Plan>& plan);
// Whether one kernel counts both, as all items of a batch are counted by one.
bool MayShareBatch(const std::optional<Plan>& a, const std::optional<Plan>& b);

// What ran. Times are those of the whole batch.
struct BatchReport {
  std::string backend;       // "cpu", "cuda:0"
  std::string kernel;        // registry name
  uint32_t payloads = 0;     // items in the batch
  uint64_t gather_ns = 0;    // copying fragments into a pinned buffer; 0 on the cpu
  uint64_t transfer_ns = 0;  // host to device and back; 0 where host memory is read in place
  uint64_t kernel_ns = 0;
};

// Owned by exactly one party at a time: the batcher, then the backend from Submit to done.
struct Batch {
  std::vector<BatchItem> items;
  uint64_t bytes = 0;       // sum over items
  std::string kernel;       // a kernel to force by name; empty lets the selector choose
  int64_t deadline_ns = 0;  // the backend may give up after this monotonic time; 0: none

  // Filled by the backend.
  absl::Status status;
  BatchReport report;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BATCH_H_
