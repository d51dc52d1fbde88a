// Something that executes batches: the CPU, or one GPU.
//
// A backend owns `lanes` execution slots. A lane executes one batch at a time. The caller counts
// the lanes in use (one credit for each lane) and never submits more batches than there are lanes.
// All methods are thread-safe. The destructor waits for batches that are still executing.
#ifndef HISTOGRAM_KERNELS_BACKEND_H_
#define HISTOGRAM_KERNELS_BACKEND_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "kernels/batch.h"
#include "kernels/workload.h"

namespace histogram {

enum class BackendKind : uint8_t {
  kCpu,  // any thread may call Execute
  kGpu,  // its lanes share one link
};
inline constexpr size_t kBackendKinds = 2;

struct BackendInfo {
  BackendKind kind = BackendKind::kGpu;
  std::string name;    // "cpu", "cuda:0"
  std::string device;  // "NVIDIA H200", the CPU's model
  std::string uuid;    // empty for the cpu
  std::string driver;  // empty for the cpu
  uint32_t lanes = 0;
  uint64_t lane_bytes = 0;     // most payload bytes of one batch; UINT64_MAX: no limit of its own
  uint32_t lane_payloads = 0;  // most items of one batch; UINT32_MAX: no limit of its own
  // Most counters of one batch of typed samples. 0: the backend counts bytes only; UINT64_MAX: no
  // limit of its own. On a GPU the plans of such a batch have the same bins.
  uint64_t lane_counters = 0;
  PhaseLimits phases;         // what phases may need; their payload may be larger than lane_bytes
  uint64_t pinned_bytes = 0;  // allocated at start
  bool reads_receive_memory = false;  // in place: BackendOptions::receive_memory
  uint64_t device_bytes = 0;          // allocated at start
};

struct KernelInfo {
  std::string name;
  std::string backend;  // "cpu", "cuda"
  std::string summary;
  uint32_t bin_count_max = kByteValues;  // most values, or bins of typed samples, that it counts
};

// A row of the dispatch table: the kernel for workloads up to some sizes, and its measured cost.
struct KernelChoice {
  std::string backend;
  SampleType sample_type = SampleType::kU8;
  uint32_t bin_count_max = 0;
  uint64_t payload_bytes_max = 0;
  uint32_t payloads_max = 0;
  std::string kernel;
  uint64_t cost_ns = 0;  // 0: not measured
  double gigabytes_per_second = 0;
};

class Backend {
 public:
  using Done = absl::AnyInvocable<void(std::unique_ptr<Batch>)>;

  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;
  virtual std::vector<KernelInfo> kernels() const = 0;
  virtual std::vector<KernelChoice> choices() const = 0;

  // False once the backend is down. Then it stays false in this process.
  virtual bool up() const = 0;
  // Marks the backend down; the watchdog calls it. Later batches fail with UNAVAILABLE.
  virtual void MarkDown(const std::string& why) = 0;

  // Predicted time of a batch of this shape. The batcher compares CPU and GPU by it.
  virtual uint64_t EstimateNs(const Workload& workload) const = 0;

  // Executes `batch` on a free lane. A thread of the backend calls `done` exactly once with the
  // same batch, never from within Submit; batch->status is its outcome. REQUIRES: fewer than
  // info().lanes batches are executing; batch->bytes <= info().lane_bytes, or the batch is of
  // phases; batch->items.size() <= info().lane_payloads; info().phases.Cover(what its phases need).
  virtual void Submit(std::unique_ptr<Batch> batch, Done done) = 0;

  // Executes `batch` on the calling thread and sets batch.status. Takes none of the lanes.
  // REQUIRES: info().kind is kCpu.
  virtual void Execute(Batch& batch) = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BACKEND_H_
