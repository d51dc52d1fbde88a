#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_backends.h"
#include "kernels/cuda/cuda_tuning.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/registry.h"
#include "kernels/cuda/lane/lane.h"
#include "kernels/cuda/lane/lane_layout.h"
#include "kernels/cuda/lane/precise_sleep.h"
#include "kernels/cuda/plan_cache.h"
#include "kernels/error.h"
#include "kernels/mutex.h"
#include "kernels/tuning/selector.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kLanesMax = 256;
constexpr uint64_t kLaneBytesMin = uint64_t{64} << 10;
constexpr uint64_t kLaneBytesMax = uint64_t{4095} << 20;
constexpr uint32_t kLanePayloadsMax = 1 << 20;

// What a batch costs where nothing was measured: a launch, the host's copy into pinned memory
// beside PCIe, and a row back for each payload.
constexpr uint64_t kAssumedNsPerBatch = 15000;
constexpr uint64_t kAssumedNsPerPayload = 60;
constexpr double kAssumedNsPerByte = 0.12;
// Typed samples: a launch for each payload, and counters that are cleared and copied back.
constexpr uint64_t kAssumedNsPerTypedPayload = 3000;
constexpr double kAssumedNsPerCounter = 0.4;

absl::Status OptionError(const char* field, uint64_t value, uint64_t least, uint64_t most) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat(field, " is ", value, "; it must be from ", least, " to ", most),
                   {.reason = "BAD_OPTION", .field = field, .limit = most, .retry_after_ms = {}});
}

// All that lane threads use. Shared with each of them, so that one that is stuck in the driver may
// outlive the backend.
struct Shared {
  enum class Stage : uint8_t { kIdle, kGathering, kOnDevice, kFinishing, kAbandoned, kGone };
  struct Task {
    std::unique_ptr<Batch> batch;
    Backend::Done done;
  };
  struct Slot {
    std::unique_ptr<Lane> lane;  // used by the slot's thread only
    Stage stage = Stage::kIdle;
    Task task;
    CondVar woken;  // given a task, or stopping
  };

  BackendInfo info;
  int device_index = 0;
  std::unique_ptr<const tuning::Selector> selector;
  PlanCache plans{kPlanCacheBytes};
  // Of one payload, by its size, once gathered: of bytes, and of typed samples.
  std::unique_ptr<const tuning::CostModel> lone_costs, typed_lone_costs;
  std::vector<KernelChoice> typed_rows;
  double gather_ns_per_byte = 0;
  std::atomic<bool> up{true};
  std::atomic<bool> poisoned{false};
  std::shared_ptr<SharedFate> fate;

  Mutex mutex;
  CondVar orphaned, gone;
  // Lanes that sleep, the last to do so last: it is woken first. Its thread, buffers and stream are
  // still in the caches, which the others' may no longer be.
  std::vector<Slot*> idle ABSL_GUARDED_BY(mutex);
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);    // for which no lane was idle
  std::deque<Task> orphans ABSL_GUARDED_BY(mutex);  // to be handed back UNAVAILABLE
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool reaper_stopping ABSL_GUARDED_BY(mutex) = false;
  std::string why_down ABSL_GUARDED_BY(mutex);
  std::vector<Slot> slots;  // stage and task guarded by mutex; the vector itself never changes
};

void MarkDownLocked(Shared& shared, const std::string& why)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
  if (!shared.up.load(std::memory_order_relaxed))
    return;  // the first reason is the one that counts
  shared.why_down = why;
  shared.up.store(false, std::memory_order_release);
  for (Shared::Task& task : shared.tasks) shared.orphans.push_back(std::move(task));
  shared.tasks.clear();
  for (Shared::Slot& slot : shared.slots) {
    if (slot.stage != Shared::Stage::kOnDevice) continue;
    shared.orphans.push_back(std::move(slot.task));
    slot.stage = Shared::Stage::kAbandoned;
  }
  shared.orphaned.NotifyAll();
}

// Another GPU's loss spoiled the process.
void TakeDown(Shared& shared, const std::string& why) {
  MutexLock lock(shared.mutex);
  shared.poisoned.store(true);
  MarkDownLocked(shared, why);
}

// Hands back what no lane will: runs until the backend goes.
void RunReaper(Shared& shared) {
  while (true) {
    Shared::Task task;
    std::string why;
    {
      MutexLock lock(shared.mutex);
      while (shared.orphans.empty() && !shared.reaper_stopping) shared.orphaned.Wait(shared.mutex);
      if (shared.orphans.empty()) return;
      task = std::move(shared.orphans.front());
      shared.orphans.pop_front();
      why = shared.why_down;
    }
    task.batch->report = {};
    task.batch->report.backend = shared.info.name;
    task.batch->report.payloads = static_cast<uint32_t>(task.batch->items.size());
    task.batch->status =
        absl::UnavailableError(absl::StrCat("backend ", shared.info.name, " is down: ", why));
    task.done(std::move(task.batch));
  }
}

absl::StatusOr<const CudaKernel*> ChooseKernel(const Shared& shared, const Batch& batch) {
  if (batch.kernel.empty()) {
    Workload workload;
    workload.payload_count = static_cast<uint32_t>(batch.items.size());
    workload.batch_bytes = batch.bytes;
    for (const BatchItem& item : batch.items) {
      workload.payload_bytes = std::max(workload.payload_bytes, item.bytes);
    }
    return Kernels()[shared.selector->Choose(workload)];
  }
  const CudaKernel* const kernel = FindKernel(batch.kernel);
  if (kernel != nullptr) return kernel;
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("kernel '", batch.kernel, "' is not one of cuda's; valid here: ", KernelNames()),
      {.reason = "UNKNOWN_KERNEL", .field = "kernel", .limit = 0, .retry_after_ms = {}});
}

// Whether all items have the first one's plan.
bool HaveOnePlan(absl::Span<const BatchItem> items) {
  return std::all_of(items.begin(), items.end(), [&items](const BatchItem& item) {
    return item.plan.has_value() && &item.plan->data() == &items.front().plan->data();
  });
}

absl::Status Begin(Shared& shared, Lane& lane, const Batch& batch) {
  if (batch.deadline_ns != 0 && NowNs() >= static_cast<uint64_t>(batch.deadline_ns)) {
    return absl::DeadlineExceededError("the deadline passed before the batch reached the device");
  }
  if (!batch.items.empty() && batch.items.front().plan.has_value()) {
    if (!HaveOnePlan(batch.items)) {
      return absl::InvalidArgumentError("the items of the batch have different plans");
    }
    return lane.BeginTyped(batch, shared.plans.Get(*batch.items.front().plan));
  }
  const absl::StatusOr<const CudaKernel*> kernel = ChooseKernel(shared, batch);
  return kernel.ok() ? lane.Begin(batch, **kernel) : kernel.status();
}

// Runs the slot's batch; false when the batch was taken away meanwhile and the lane must end.
bool RunBatch(Shared& shared, Shared::Slot& slot) {
  Batch& batch = *slot.task.batch;
  batch.report = {};
  batch.report.backend = shared.info.name;
  batch.report.payloads = static_cast<uint32_t>(batch.items.size());
  absl::Status status = Begin(shared, *slot.lane, batch);
  if (!status.ok() && !absl::IsUnavailable(status)) {
    // Nothing that was queued may still read the buffers when the next batch fills them.
    if (const absl::Status drained = slot.lane->Drain(); !drained.ok()) status = drained;
  }
  if (status.ok()) {
    {
      MutexLock lock(shared.mutex);
      slot.stage = Shared::Stage::kOnDevice;
      if (!shared.up.load(std::memory_order_relaxed)) {
        shared.orphans.push_back(std::move(slot.task));
        slot.stage = Shared::Stage::kAbandoned;
        shared.orphaned.NotifyAll();
      }
    }
    status = slot.lane->Wait();
  }
  {
    MutexLock lock(shared.mutex);
    if (absl::IsUnavailable(status)) shared.poisoned.store(true);
    if (slot.stage == Shared::Stage::kAbandoned) return false;
    slot.stage = Shared::Stage::kFinishing;
    if (absl::IsUnavailable(status)) MarkDownLocked(shared, std::string(status.message()));
  }
  if (SpoilsProcess(status)) {
    shared.fate->Spoil(absl::StrCat("this process must end, since ", shared.info.name,
                                    " was lost: ", status.message()));
  }
  if (status.ok()) slot.lane->Finish(batch);
  batch.status = status;
  return true;
}

// Waits until the slot has a task; false when none will come.
bool TakeTask(Shared& shared, Shared::Slot& slot) {
  MutexLock lock(shared.mutex);
  if (!shared.tasks.empty()) {
    slot.task = std::move(shared.tasks.front());
    shared.tasks.pop_front();
    slot.stage = Shared::Stage::kGathering;
    return true;
  }
  shared.idle.push_back(&slot);
  while (slot.stage == Shared::Stage::kIdle && !shared.stopping) slot.woken.Wait(shared.mutex);
  return slot.stage != Shared::Stage::kIdle;
}

void RunLane(Shared& shared, Shared::Slot& slot) {
  const PreciseSleep precise_sleep;
  static_cast<void>(cudaSetDevice(shared.device_index));
  while (TakeTask(shared, slot)) {
    if (!RunBatch(shared, slot)) break;
    Shared::Task task;
    {
      MutexLock lock(shared.mutex);
      slot.stage = Shared::Stage::kIdle;
      task = std::move(slot.task);
    }
    task.done(std::move(task.batch));
  }
  MutexLock lock(shared.mutex);
  slot.stage = Shared::Stage::kGone;
  shared.gone.NotifyAll();
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
    reaper_ = std::thread([this] { RunReaper(*shared_); });
    threads_.reserve(shared_->slots.size());
    for (Shared::Slot& slot : shared_->slots) {
      threads_.emplace_back([shared = shared_, &slot] { RunLane(*shared, slot); });
    }
  }

  ~CudaBackend() override {
    for (Shared::Slot& slot : shared_->slots) slot.lane->ReleaseHang();
    std::vector<bool> stuck(threads_.size());
    {
      MutexLock lock(shared_->mutex);
      shared_->stopping = true;
      for (Shared::Slot& slot : shared_->slots) slot.woken.NotifyOne();
    }
    for (size_t i = 0; i < threads_.size(); ++i) stuck[i] = !WaitUntilGone(shared_->slots[i]);
    {
      MutexLock lock(shared_->mutex);
      shared_->reaper_stopping = true;
      shared_->orphaned.NotifyAll();
    }
    reaper_.join();
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (stuck[i]) {
        threads_[i].detach();  // keeps `shared` and with it the lane
        continue;
      }
      threads_[i].join();
      if (shared_->poisoned.load()) shared_->slots[i].lane->Abandon();
    }
    // Frees the lanes, unless a thread that is stuck holds on to them. From the right device.
    static_cast<void>(cudaSetDevice(shared_->device_index));
    shared_.reset();
  }

  const BackendInfo& info() const override { return shared_->info; }
  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> kernels = ListCudaKernels();
    kernels.push_back({.name = std::string(kTypedTableName),
                       .backend = "cuda",
                       .summary = std::string(kTypedTableSummary),
                       .bin_count_max = kLaneCounters - internal::kOutsideSlots});
    return kernels;
  }
  std::vector<KernelChoice> choices() const override {
    std::vector<KernelChoice> rows = shared_->selector->rows();
    rows.insert(rows.end(), shared_->typed_rows.begin(), shared_->typed_rows.end());
    return rows;
  }

  bool up() const override { return shared_->up.load(std::memory_order_acquire); }

  void MarkDown(const std::string& why) override {
    MutexLock lock(shared_->mutex);
    MarkDownLocked(*shared_, why);
  }

  uint64_t EstimateNs(const Workload& workload) const override {
    return OnDeviceNs(workload) + ByHostNs(workload);
  }

  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    MutexLock lock(shared_->mutex);
    Shared::Task task = {std::move(batch), std::move(done)};
    if (!shared_->up.load(std::memory_order_relaxed)) {
      shared_->orphans.push_back(std::move(task));
      shared_->orphaned.NotifyAll();
      return;
    }
    if (shared_->idle.empty()) {
      shared_->tasks.push_back(std::move(task));
      return;
    }
    Shared::Slot& slot = *shared_->idle.back();
    shared_->idle.pop_back();
    slot.task = std::move(task);
    slot.stage = Shared::Stage::kGathering;
    slot.woken.NotifyOne();
  }

  void Execute(Batch& batch) override {
    batch.status =
        absl::UnimplementedError("a GPU's batches run on its lanes' threads: Submit them");
  }

 private:
  // From the first copy or launch to the end of the last kernel.
  uint64_t OnDeviceNs(const Workload& workload) const {
    const bool typed = workload.sample_bytes > 0;
    Workload lone = workload;
    lone.payload_count = 1;
    lone.payload_bytes = lone.batch_bytes;
    return (typed ? shared_->typed_lone_costs : shared_->lone_costs)->EstimateNs(lone);
  }
  // Gathering, and what rows take: each further payload's, and typed ones' that are long.
  uint64_t ByHostNs(const Workload& workload) const {
    const bool typed = workload.sample_bytes > 0;
    const uint64_t further = workload.payload_count > 0 ? workload.payload_count - 1 : 0;
    double ns = static_cast<double>(workload.batch_bytes) * shared_->gather_ns_per_byte;
    if (typed) {
      const uint64_t measured = workload.payload_count > 0 ? kTypedBinsMeasured : 0;
      const double counters = static_cast<double>(workload.payload_count) * workload.bin_count;
      ns += std::max(0.0, counters - measured) * kAssumedNsPerCounter;
    }
    return further * (typed ? kAssumedNsPerTypedPayload : kAssumedNsPerPayload) +
           static_cast<uint64_t>(std::min(ns, 0x1p61));
  }

  // False when the slot's batch was taken away and its thread does not come back in time.
  bool WaitUntilGone(const Shared::Slot& slot) {
    constexpr auto kPatience = std::chrono::seconds(2);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(shared_->mutex);
    while (slot.stage != Shared::Stage::kGone) {
      if (slot.stage != Shared::Stage::kAbandoned) {
        shared_->gone.WaitFor(shared_->mutex, std::chrono::milliseconds(100));
        continue;
      }
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) return false;
      shared_->gone.WaitFor(shared_->mutex, left);
    }
    return true;
  }

  std::shared_ptr<Shared> shared_;
  std::thread reaper_;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::Status CheckOptions(const BackendOptions& options) {
  if (options.cuda_lanes < 1 || options.cuda_lanes > kLanesMax) {
    return OptionError("cuda_lanes", options.cuda_lanes, 1, kLanesMax);
  }
  if (options.cuda_lane_bytes < kLaneBytesMin || options.cuda_lane_bytes > kLaneBytesMax) {
    return OptionError("cuda_lane_bytes", options.cuda_lane_bytes, kLaneBytesMin, kLaneBytesMax);
  }
  if (options.lane_payloads < 1 || options.lane_payloads > kLanePayloadsMax) {
    return OptionError("lane_payloads", options.lane_payloads, 1, kLanePayloadsMax);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const Device& device,
                                                         const BackendOptions& options,
                                                         const std::shared_ptr<FaultPlan>& faults,
                                                         const std::shared_ptr<SharedFate>& fate,
                                                         std::vector<std::string>& notes) {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaSetDevice(device.traits.index));
  HISTOGRAM_RETURN_IF_ERROR(PrepareKernels(device.traits));
  auto shared = std::make_shared<Shared>();
  shared->device_index = device.traits.index;
  shared->slots = std::vector<Shared::Slot>(options.cuda_lanes);
  BackendInfo& info = shared->info;
  info.name = absl::StrCat("cuda:", device.traits.index);
  info.device = device.name;
  info.uuid = device.uuid;
  info.driver = device.driver;
  info.lanes = options.cuda_lanes;
  info.lane_bytes = options.cuda_lane_bytes;
  info.lane_payloads = options.lane_payloads;
  info.lane_counters = kLaneCounters;
  for (Shared::Slot& slot : shared->slots) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = Lane::Make({.device = device.traits,
                                                             .lane_bytes = options.cuda_lane_bytes,
                                                             .lane_payloads = options.lane_payloads,
                                                             .spin_us_max = options.spin_us_max,
                                                             .faults = faults});
    if (!lane.ok()) return lane.status();
    slot.lane = *std::move(lane);
    info.pinned_bytes += slot.lane->pinned_bytes();
    info.device_bytes += slot.lane->device_bytes();
  }
  shared->gather_ns_per_byte = MeasureGatherNsPerByte(*shared->slots.front().lane);
  absl::StatusOr<std::vector<KernelChoice>> rows =
      MakeCudaTable(info.name, device, options, *shared->slots.front().lane, notes);
  if (!rows.ok()) return rows.status();
  std::vector<KernelChoice> lone_rows;
  std::copy_if(rows->begin(), rows->end(), std::back_inserter(lone_rows),
               [](const KernelChoice& row) { return row.payloads_max == 1; });
  const tuning::CostModel::Assumption assumption = {.ns_per_byte = kAssumedNsPerByte,
                                                    .ns_per_payload = kAssumedNsPerBatch};
  shared->lone_costs = std::make_unique<tuning::CostModel>(lone_rows, assumption);
  absl::StatusOr<std::vector<KernelChoice>> typed_rows =
      MakeTypedRows(info.name, options, *shared->slots.front().lane);
  if (!typed_rows.ok()) return typed_rows.status();
  shared->typed_lone_costs = std::make_unique<tuning::CostModel>(*typed_rows, assumption);
  shared->typed_rows = *std::move(typed_rows);
  shared->selector =
      std::make_unique<tuning::Selector>(Candidates(), *std::move(rows), options.force_kernel);
  shared->fate = fate;
  // The members hold on to no backend: one that is gone has nothing to take down.
  fate->Join([weak = std::weak_ptr<Shared>(shared)](const std::string& why) {
    if (const std::shared_ptr<Shared> member = weak.lock()) TakeDown(*member, why);
  });
  return std::make_unique<CudaBackend>(std::move(shared));
}

}  // namespace histogram::cuda
