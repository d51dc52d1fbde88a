#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "kernels/cuda/backend/cuda_tuning.h"
#include "kernels/cuda/backend/device_check.h"
#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/cuda/backend/lane_threads.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/fault_plan.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/tuning/selector.h"

namespace histogram::cuda {
namespace {

// What a batch costs where nothing was measured: a launch, the bytes' way over the link, and a row
// back for each payload. Near an H200 host's costs; they matter only without the measurement at
// start.
constexpr uint64_t kAssumedNsPerBatch = 15000;
constexpr uint64_t kAssumedNsPerPayload = 60;
constexpr double kAssumedNsPerByte = 0.02;
// Typed samples: a launch for each payload, unless small ones share one, and counters that are
// cleared and copied back. Guesses for an H200 host.
constexpr uint64_t kAssumedNsPerTypedPayload = 3000;
constexpr double kAssumedNsPerCounter = 0.4;

struct Costs {
  // Of one payload, by its size, once gathered: of bytes, and of typed samples.
  tuning::CostModel lone_costs, typed_lone_costs;
  std::vector<KernelChoice> typed_rows;
  double gather_ns_per_byte = 0;
};

KernelInfo InfoOf(absl::string_view name, absl::string_view summary, uint32_t bin_count_max) {
  return {std::string(name), "cuda", std::string(summary), bin_count_max};
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<LanesShared> shared, Costs costs)
      : shared_(std::move(shared)), costs_(std::move(costs)), lanes_(shared_) {}

  const BackendInfo& info() const override { return shared_->info; }
  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> kernels = ListCudaKernels();
    kernels.push_back(
        InfoOf(kTypedTableName, kTypedTableSummary, kLaneCounters - internal::kOutsideSlots));
    kernels.push_back(
        InfoOf(kTypedRowsName, kTypedRowsSummary, static_cast<uint32_t>(info().phases.row_bins)));
    return kernels;
  }
  std::vector<KernelChoice> choices() const override {
    std::vector<KernelChoice> rows = shared_->selector->rows();
    rows.insert(rows.end(), costs_.typed_rows.begin(), costs_.typed_rows.end());
    return rows;
  }

  bool up() const override { return shared_->up.load(std::memory_order_acquire); }

  void MarkDown(const std::string& why) override { cuda::MarkDown(*shared_, why); }

  // From the first copy or launch to the end of the last kernel; gathering; and what rows take:
  // each further payload's, and typed ones' that are long.
  uint64_t EstimateNs(const Workload& workload) const override {
    const bool typed = workload.sample_bytes > 0;
    Workload lone = workload;
    lone.payload_count = 1;
    lone.payload_bytes = lone.batch_bytes;
    const uint64_t further = workload.payload_count > 0 ? workload.payload_count - 1 : 0;
    double ns = static_cast<double>(workload.batch_bytes) * costs_.gather_ns_per_byte;
    if (typed) {
      const uint64_t measured = workload.payload_count > 0 ? kTypedBinsMeasured : 0;
      const double counters = static_cast<double>(workload.payload_count) * workload.bin_count;
      ns += std::max(0.0, counters - measured) * kAssumedNsPerCounter;
    }
    return (typed ? costs_.typed_lone_costs : costs_.lone_costs).EstimateNs(lone) +
           further * (typed ? kAssumedNsPerTypedPayload : kAssumedNsPerPayload) +
           static_cast<uint64_t>(std::min(ns, 0x1p61));
  }

  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    lanes_.Submit(std::move(batch), std::move(done));
  }

  void Execute(Batch& batch) override {
    batch.status =
        absl::UnimplementedError("a GPU's batches run on its lanes' threads: Submit them");
  }

 private:
  const std::shared_ptr<LanesShared> shared_;
  const Costs costs_;
  LaneThreads lanes_;  // the first to go
};

// With two lanes one begins a batch while the other waits for the device; more cost switches
// between threads: 1 MiB over eight connections takes 0.72 of `--backend cpu`'s CPU with two, 0.79
// with four, at 1.16 and 1.08 of its throughput (H200, ec86c61). Lanes that have to copy carry 0.76
// of the throughput with two, 0.88 with four (fdd6fb5). On a host of four GPUs and 64 cores one
// each takes less than two: over 32 connections 0.89 of the CPU time at 64 KiB and for ComputeMany
// of 4 KiB, at 0.97 and 1.11 of the throughput, 0.97 at 1 MiB, at 0.98 (H200, 91d6107).
uint32_t LanesOf(const BackendOptions& options, size_t gpus) {
  constexpr size_t kGpusOfTwoLanes = 2;
  if (options.cuda_lanes > 0) return options.cuda_lanes;
  if (options.receive_memory.empty()) return 4;
  return gpus > kGpusOfTwoLanes ? 1 : 2;
}

// Pins it for all devices, for as long as the process lives.
bool PinReceiveMemory(std::span<uint8_t> memory, std::vector<std::string>& notes) {
  if (memory.empty()) return false;
  const absl::Status status =
      ToStatus(cudaHostRegister(memory.data(), memory.size(),
                                cudaHostRegisterPortable | cudaHostRegisterMapped),
               "cudaHostRegister");
  if (!status.ok()) {
    notes.push_back(absl::StrCat("payloads are copied for the GPU: ", memory.size(),
                                 " bytes cannot be pinned: ", status.message()));
  }
  return status.ok();
}

// Allocates all lanes and tunes on the first of them. Each call has a thread of its own.
// RESOURCE_EXHAUSTED where memory is short. REQUIRES: options.cuda_lanes is not 0.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const Device& device,
                                                         const BackendOptions& options,
                                                         const std::shared_ptr<FaultPlan>& faults,
                                                         const std::shared_ptr<SharedFate>& fate) {
  SleepPrecisely();
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaSetDevice(device.traits.index));
  HISTOGRAM_RETURN_IF_ERROR(PrepareKernels(device.traits));
  auto shared = std::make_shared<LanesShared>();
  shared->device_index = device.traits.index;
  shared->slots = std::vector<LanesShared::Slot>(options.cuda_lanes);
  BackendInfo& info = shared->info;
  info.name = absl::StrCat("cuda:", device.traits.index);
  info.device = device.name;
  info.uuid = device.uuid;
  info.driver = device.driver;
  info.lanes = options.cuda_lanes;
  info.lane_bytes = options.cuda_lane_bytes;
  info.lane_payloads = options.lane_payloads;
  info.lane_counters = kLaneCounters;
  info.reads_receive_memory = !options.receive_memory.empty();
  void* receive_device = nullptr;
  if (!options.receive_memory.empty()) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaHostGetDevicePointer(&receive_device, options.receive_memory.data(), 0));
  }
  for (LanesShared::Slot& slot : shared->slots) {
    HISTOGRAM_ASSIGN_OR_RETURN(
        slot.lane, Lane::Make({.device = device.traits,
                               .lane_bytes = options.cuda_lane_bytes,
                               .lane_payloads = options.lane_payloads,
                               .spin_us_max = options.spin_us_max,
                               .faults = faults,
                               .receive_memory = options.receive_memory,
                               .receive_device = reinterpret_cast<uint64_t>(receive_device)}));
    info.pinned_bytes += slot.lane->pinned_bytes();
    info.device_bytes += slot.lane->device_bytes();
  }
  info.phases = {.row_bins = RowBinsMax(device.traits),
                 .pixel_bytes = shared->slots.front().lane->part_bytes_max()};
  Lane& lane = *shared->slots.front().lane;
  // The receive memory is not gathered, but fetched at the rate of the copies that are measured.
  const double gather_ns_per_byte =
      options.receive_memory.empty() ? MeasureGatherNsPerByte(lane) : 0;
  std::vector<KernelChoice> rows = MakeCudaTable(info.name, options, lane), lone_rows, typed_rows;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(lone_rows),
               [](const KernelChoice& row) { return row.payloads_max == 1; });
  HISTOGRAM_ASSIGN_OR_RETURN(typed_rows, MakeTypedRows(info.name, options, lane));
  const tuning::CostModel::Assumption assumption = {.ns_per_byte = kAssumedNsPerByte,
                                                    .ns_per_payload = kAssumedNsPerBatch};
  Costs costs = {.lone_costs = {lone_rows, assumption},
                 .typed_lone_costs = {typed_rows, assumption},
                 .typed_rows = typed_rows,
                 .gather_ns_per_byte = gather_ns_per_byte};
  shared->selector =
      std::make_unique<tuning::Selector>(KernelNames(), std::move(rows), options.force_kernel);
  shared->fate = fate;
  fate->Join(shared);
  return std::make_unique<CudaBackend>(std::move(shared), std::move(costs));
}

}  // namespace
}  // namespace histogram::cuda

namespace histogram {

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options, std::vector<std::string>& notes) {
  absl::StatusOr<std::shared_ptr<cuda::FaultPlan>> faults =
      cuda::FaultPlan::Parse(options.fault_injection);
  if (!faults.ok()) return faults.status();
  const auto fate = std::make_shared<cuda::SharedFate>();
  // GPUs are prepared side by side: each allocates and tunes for a second or so.
  const std::vector<cuda::Device> devices = cuda::FindDevices(**faults, notes);
  BackendOptions used = options;
  if (devices.empty() || !cuda::PinReceiveMemory(options.receive_memory, notes)) {
    used.receive_memory = {};
  }
  used.cuda_lanes = cuda::LanesOf(used, devices.size());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::future<absl::StatusOr<std::unique_ptr<Backend>>>> makers;
  makers.reserve(devices.size());
  for (const cuda::Device& device : devices) {
    makers.push_back(std::async(
        std::launch::async, [&] { return cuda::MakeCudaBackend(device, used, *faults, fate); }));
  }
  std::vector<std::unique_ptr<Backend>> backends;
  for (size_t i = 0; i < devices.size(); ++i) {
    absl::StatusOr<std::unique_ptr<Backend>> backend = makers[i].get();
    if (devices[i].compiles_ptx) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      notes.push_back(absl::StrFormat(
          "cuda:%d has compute capability %d.%d, for which this build has no machine code: the "
          "driver compiled PTX, and the GPU was prepared in %.1f s",
          devices[i].traits.index, devices[i].traits.compute_capability / 10,
          devices[i].traits.compute_capability % 10, took.count()));
    }
    if (backend.ok()) {
      backends.push_back(*std::move(backend));
    } else if (absl::IsInvalidArgument(backend.status())) {
      return backend.status();
    } else {
      notes.push_back(absl::StrCat("cuda:", devices[i].traits.index,
                                   " is not used: ", backend.status().message()));
    }
  }
  return backends;
}

std::vector<KernelInfo> ListCudaKernels() {
  std::vector<KernelInfo> infos;
  for (const cuda::CudaKernel* kernel : cuda::Kernels()) {
    infos.push_back(cuda::InfoOf(kernel->name, kernel->summary, kByteValues));
  }
  return infos;
}

}  // namespace histogram
