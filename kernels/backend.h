// Something that executes batches: the CPU, or one GPU.
//
// A backend owns `lanes` execution slots. A lane executes one batch at a time; the caller keeps the
// count of lanes in use (one credit a lane) and never submits more than there are.
// All methods are thread-safe. Destruction waits for batches that are still executing.
#ifndef HISTOGRAM_KERNELS_BACKEND_H_
#define HISTOGRAM_KERNELS_BACKEND_H_

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
  kCpu,  // any thread that holds a credit may call Execute
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
  uint64_t pinned_bytes = 0;   // allocated at start
  uint64_t device_bytes = 0;   // allocated at start
  // Whether items may have a plan, or work. Else they are bytes.
  bool counts_typed = false;
};

struct KernelInfo {
  std::string name;
  std::string backend;  // "cpu", "cuda"
  std::string summary;
  uint32_t bin_count_max = kByteValues;  // of the values it counts, before folding
};

// A row of the dispatch table: which kernel serves which workloads, and what it measured.
struct KernelChoice {
  std::string backend;
  uint32_t bin_count_max = 0;
  uint64_t payload_bytes_max = 0;
  uint32_t payloads_max = 0;
  std::string kernel;
  uint64_t cost_ns = 0;  // 0: not measured, chosen by priority
  double gigabytes_per_second = 0;
};

class Backend {
 public:
  using Done = absl::AnyInvocable<void(std::unique_ptr<Batch>)>;

  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;
  virtual std::vector<KernelInfo> kernels() const = 0;
  virtual std::vector<KernelChoice> choices() const = 0;

  // False once the device is lost; never true again in this process.
  virtual bool up() const = 0;
  // Marks the backend down (the watchdog's call): batches submitted from now on fail with
  // UNAVAILABLE.
  virtual void MarkDown(const std::string& why) = 0;

  // Predicted time of a batch of this shape, in nanoseconds; used to place and to close batches.
  virtual uint64_t EstimateNs(const Workload& workload) const = 0;

  // Executes `batch` on a free lane. `done` is called exactly once with the same batch, from a
  // lane's thread and never from within Submit; batch->status says how it went. REQUIRES: fewer
  // than info().lanes batches are executing; batch->bytes <= info().lane_bytes and
  // batch->items.size() <= info().lane_payloads.
  virtual void Submit(std::unique_ptr<Batch> batch, Done done) = 0;

  // Executes `batch` on the calling thread and returns when it is done (batch.status set).
  // Counts as one of the lanes. REQUIRES: info().kind is kCpu.
  virtual void Execute(Batch& batch) = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BACKEND_H_
