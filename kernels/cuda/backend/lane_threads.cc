#include "kernels/cuda/backend/lane_threads.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {
namespace {

void StartReport(const LanesShared& shared, Batch& batch) {
  batch.report = {};
  batch.report.backend = shared.info.name;
  batch.report.payloads = static_cast<uint32_t>(batch.items.size());
}

// Hands back what no lane will: runs until the backend goes.
void RunReaper(LanesShared& shared) {
  while (true) {
    LanesShared::Task task;
    std::string why;
    {
      MutexLock lock(shared.mutex);
      while (shared.orphans.empty() && !shared.reaper_stopping) shared.orphaned.Wait(shared.mutex);
      if (shared.orphans.empty()) return;
      task = std::move(shared.orphans.front());
      shared.orphans.pop_front();
      why = shared.why_down;
    }
    StartReport(shared, *task.batch);
    task.batch->status =
        absl::UnavailableError(absl::StrCat("backend ", shared.info.name, " is down: ", why));
    task.done(std::move(task.batch));
  }
}

const CudaKernel& ChooseKernel(const LanesShared& shared, const Batch& batch) {
  Workload workload;
  workload.payload_count = static_cast<uint32_t>(batch.items.size());
  workload.batch_bytes = batch.bytes;
  for (const BatchItem& item : batch.items) {
    workload.payload_bytes = std::max(workload.payload_bytes, item.bytes);
  }
  // No row serves a batch beyond the lane, which refuses it.
  return *Kernels()[shared.selector->Choose(workload).value_or(0)];
}

// Whether the first item's plan counts all of them.
bool HaveOnePlan(absl::Span<const BatchItem> items) {
  const Plan& first = items.front().plan;
  return std::all_of(items.begin(), items.end(), [&first](const BatchItem& item) {
    return MayShareBatch(first, item.plan) && HaveSameBins(first, item.plan);
  });
}

absl::Status Begin(LanesShared& shared, Lane& lane, const Batch& batch) {
  if (!batch.items.empty() && !batch.items.front().plan.counts_values()) {
    if (!HaveOnePlan(batch.items)) {
      return absl::InvalidArgumentError("the items of the batch have different plans");
    }
    return lane.BeginTyped(batch);
  }
  return lane.Begin(batch, ChooseKernel(shared, batch));
}

// The context is lost if the status says so.
void NoteLoss(LanesShared& shared, const absl::Status& status) {
  if (absl::IsUnavailable(status)) MarkDown(shared, std::string(status.message()));
  if (SpoilsProcess(status)) {
    shared.fate->Spoil(absl::StrCat("this process must end, since ", shared.info.name,
                                    " was lost: ", status.message()));
  }
}

// Waits for the device. Meanwhile the slot's batch may be taken away: then it, and all that belongs
// to it, must not be touched again.
absl::Status WaitForDevice(LanesShared& shared, LanesShared::Slot& slot, bool& taken_away) {
  {
    MutexLock lock(shared.mutex);
    slot.stage = LanesShared::Stage::kOnDevice;
    if (!shared.up.load(std::memory_order_relaxed)) {
      shared.orphans.push_back(std::move(slot.task));
      slot.stage = LanesShared::Stage::kAbandoned;
      shared.orphaned.NotifyAll();
    }
  }
  absl::Status status = slot.lane->Wait();
  {
    MutexLock lock(shared.mutex);
    taken_away = slot.stage == LanesShared::Stage::kAbandoned;
    if (!taken_away) slot.stage = LanesShared::Stage::kOnHost;
  }
  NoteLoss(shared, status);
  if (status.ok() && taken_away) status = absl::AbortedError("the batch was taken away");
  return status;
}

absl::Status Execute(LanesShared& shared, LanesShared::Slot& slot, Batch& batch, bool& taken_away) {
  if (batch.deadline_ns != 0 && NowNs() >= static_cast<uint64_t>(batch.deadline_ns)) {
    return absl::DeadlineExceededError("the deadline passed before the batch reached the device");
  }
  if (!batch.items.empty() && batch.items.front().phases != nullptr) {
    const std::shared_ptr<Phases> phases = batch.items.front().phases;  // outlives the batch
    return RunPhases(
        *phases, batch.items.front().fragments, *slot.lane,
        [&] { return WaitForDevice(shared, slot, taken_away); }, batch.report);
  }
  HISTOGRAM_RETURN_IF_ERROR(Begin(shared, *slot.lane, batch));
  HISTOGRAM_RETURN_IF_ERROR(WaitForDevice(shared, slot, taken_away));
  slot.lane->Finish(batch);
  return absl::OkStatus();
}

// Runs the slot's batch; false when the batch was taken away meanwhile and the lane must end.
bool RunBatch(LanesShared& shared, LanesShared::Slot& slot) {
  Batch& batch = *slot.task.batch;
  StartReport(shared, batch);
  bool taken_away = false;
  absl::Status status = Execute(shared, slot, batch, taken_away);
  if (taken_away) return false;
  if (!status.ok() && !absl::IsUnavailable(status)) {
    // Nothing that was queued may still read the buffers when the next batch fills them.
    if (const absl::Status drained = slot.lane->Drain(); !drained.ok()) status = drained;
  }
  NoteLoss(shared, status);
  batch.status = status;
  return true;
}

// Waits until the slot has a task; false when none will come.
bool TakeTask(LanesShared& shared, LanesShared::Slot& slot) {
  MutexLock lock(shared.mutex);
  if (!shared.tasks.empty()) {
    slot.task = std::move(shared.tasks.front());
    shared.tasks.pop_front();
    slot.stage = LanesShared::Stage::kOnHost;
    return true;
  }
  shared.idle.push_back(&slot);
  while (slot.stage == LanesShared::Stage::kIdle && !shared.stopping) slot.woken.Wait(shared.mutex);
  return slot.stage != LanesShared::Stage::kIdle;
}

void RunLane(LanesShared& shared, LanesShared::Slot& slot) {
  SleepPrecisely();
  static_cast<void>(cudaSetDevice(shared.device_index));
  while (TakeTask(shared, slot)) {
    if (!RunBatch(shared, slot)) break;
    LanesShared::Task task;
    {
      MutexLock lock(shared.mutex);
      slot.stage = LanesShared::Stage::kIdle;
      task = std::move(slot.task);
    }
    task.done(std::move(task.batch));
  }
  MutexLock lock(shared.mutex);
  slot.stage = LanesShared::Stage::kGone;
  shared.gone.NotifyAll();
}

// False when the slot's batch was taken away and its thread does not come back in time.
bool WaitUntilGone(LanesShared& shared, const LanesShared::Slot& slot) {
  constexpr auto kPatience = std::chrono::seconds(2);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(shared.mutex);
  while (slot.stage != LanesShared::Stage::kGone) {
    const bool abandoned = slot.stage == LanesShared::Stage::kAbandoned;
    if (abandoned && std::chrono::steady_clock::now() >= until) return false;
    shared.gone.WaitFor(shared.mutex, std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace

void MarkDown(LanesShared& shared, const std::string& why) {
  MutexLock lock(shared.mutex);
  if (!shared.up.load(std::memory_order_relaxed)) return;  // keeps the first reason
  shared.why_down = why;
  shared.up.store(false, std::memory_order_release);
  for (LanesShared::Task& task : shared.tasks) shared.orphans.push_back(std::move(task));
  shared.tasks.clear();
  for (LanesShared::Slot& slot : shared.slots) {
    if (slot.stage != LanesShared::Stage::kOnDevice) continue;
    shared.orphans.push_back(std::move(slot.task));
    slot.stage = LanesShared::Stage::kAbandoned;
  }
  shared.orphaned.NotifyAll();
}

void SharedFate::Join(const std::shared_ptr<LanesShared>& member) {
  MutexLock lock(mutex_);
  members_.push_back(member);
}

void SharedFate::Spoil(const std::string& why) {
  MutexLock lock(mutex_);
  for (const std::weak_ptr<LanesShared>& weak : members_) {
    const std::shared_ptr<LanesShared> member = weak.lock();
    if (member != nullptr) MarkDown(*member, why);
  }
}

LaneThreads::LaneThreads(std::shared_ptr<LanesShared> shared) : shared_(std::move(shared)) {
  reaper_ = std::thread([this] { RunReaper(*shared_); });
  threads_.reserve(shared_->slots.size());
  for (LanesShared::Slot& slot : shared_->slots) {
    threads_.emplace_back([shared = shared_, &slot] { RunLane(*shared, slot); });
  }
}

LaneThreads::~LaneThreads() {
  for (LanesShared::Slot& slot : shared_->slots) slot.lane->ReleaseHang();
  std::vector<bool> stuck(threads_.size());
  {
    MutexLock lock(shared_->mutex);
    shared_->stopping = true;
    for (LanesShared::Slot& slot : shared_->slots) slot.woken.NotifyOne();
  }
  for (size_t i = 0; i < threads_.size(); ++i)
    stuck[i] = !WaitUntilGone(*shared_, shared_->slots[i]);
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
    if (!shared_->up.load()) static_cast<void>(shared_->slots[i].lane.release());
  }
  // The lanes are freed from their own device, unless a thread that is stuck holds on to them.
  static_cast<void>(cudaSetDevice(shared_->device_index));
}

void LaneThreads::Submit(std::unique_ptr<Batch> batch, Backend::Done done) {
  MutexLock lock(shared_->mutex);
  LanesShared::Task task = {std::move(batch), std::move(done)};
  if (!shared_->up.load(std::memory_order_relaxed)) {
    shared_->orphans.push_back(std::move(task));
    shared_->orphaned.NotifyAll();
    return;
  }
  if (shared_->idle.empty()) {
    shared_->tasks.push_back(std::move(task));
    return;
  }
  LanesShared::Slot& slot = *shared_->idle.back();
  shared_->idle.pop_back();
  slot.task = std::move(task);
  slot.stage = LanesShared::Stage::kOnHost;
  slot.woken.NotifyOne();
}

}  // namespace histogram::cuda
