#include "kernels/cpu/cpu_backend.h"

#include <histogram/typed.h>
#include <histogram/usable_cores.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/cpu_tuning.h"
#include "kernels/cpu/registry.h"
#include "kernels/error.h"
#include "kernels/mutex.h"
#include "kernels/payload.h"
#include "kernels/tuning/selector.h"

namespace histogram::cpu {
namespace {

// The costs of a modest core, used if nothing is measured. Guesses.
constexpr double kAssumedNsPerByte = 1 / 3.0;
constexpr uint64_t kAssumedNsPerPayload = 200;
constexpr double kAssumedNsPerSample = 0.5;   // of typed samples
constexpr double kAssumedNsPerCounter = 0.5;  // of typed samples

// Of these kernels; `runnable`: of those that this processor can run.
std::vector<KernelInfo> InfosOf(std::span<const CpuKernel> kernels, bool runnable,
                                uint32_t bin_count_max) {
  std::vector<KernelInfo> infos;
  for (const CpuKernel& kernel : kernels) {
    if (runnable && !kernel.supported()) continue;
    infos.push_back({.name = std::string(kernel.name),
                     .backend = kBackendName,
                     .summary = std::string(kernel.summary),
                     .bin_count_max = bin_count_max});
  }
  return infos;
}

class CpuBackend final : public Backend {
 public:
  // The selector's kernels are ByteKernels().
  CpuBackend(uint32_t lanes, tuning::Selector selector, double typed_ns_per_sample)
      : selector_(std::move(selector)),
        costs_(selector_.rows(), {kAssumedNsPerByte, kAssumedNsPerPayload}),
        typed_ns_per_sample_(typed_ns_per_sample) {
    info_.name = kBackendName;
    info_.device = ModelName();
    info_.lanes = lanes;
    info_.lane_bytes = std::numeric_limits<uint64_t>::max();
    info_.lane_payloads = std::numeric_limits<uint32_t>::max();
    info_.lane_counters = std::numeric_limits<uint64_t>::max();
    info_.phases = kAllPhases;
    info_.kind = BackendKind::kCpu;
    threads_.reserve(lanes);
    for (uint32_t i = 0; i < lanes; ++i) threads_.emplace_back([this] { RunLane(); });
  }

  ~CpuBackend() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      wake_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  const BackendInfo& info() const override { return info_; }
  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> infos = InfosOf(ByteKernels(), /*runnable=*/true, kByteValues);
    std::ranges::move(InfosOf(TypedKernels(), /*runnable=*/true, kBinCountMax),
                      std::back_inserter(infos));
    return infos;
  }
  std::vector<KernelChoice> choices() const override { return selector_.rows(); }

  bool up() const override { return up_.load(std::memory_order_acquire); }

  void MarkDown(const std::string& why) override {
    MutexLock lock(mutex_);
    if (!up_.load(std::memory_order_relaxed)) return;  // keeps the first reason
    why_down_ = why;
    up_.store(false, std::memory_order_release);
  }

  uint64_t EstimateNs(const Workload& workload) const override {
    return workload.sample_bytes > 0 ? EstimateTypedNs(workload) : costs_.EstimateNs(workload);
  }

  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    MutexLock lock(mutex_);
    tasks_.push_back({std::move(batch), std::move(done)});
    wake_.NotifyOne();
  }

  void Execute(Batch& batch) override {
    const auto start = std::chrono::steady_clock::now();
    batch.report = {};
    batch.report.backend = info_.name;
    batch.report.payloads = static_cast<uint32_t>(batch.items.size());
    if (!up()) {
      MutexLock lock(mutex_);
      batch.status = absl::UnavailableError(absl::StrCat("backend cpu is down: ", why_down_));
      return;
    }
    Count(batch);
    batch.status = absl::OkStatus();
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    batch.report.kernel_ns = static_cast<uint64_t>(took.count());
  }

 private:
  void Count(Batch& batch) const {
    if (!batch.items.empty() && batch.items.front().phases != nullptr) {
      const BatchItem& only = batch.items.front();
      batch.report.kernel = RunPhases(*only.phases, only.fragments);
      return;
    }
    if (!batch.items.empty() && !batch.items.front().plan.counts_values()) {
      batch.report.kernel = std::string(KernelName(batch.items.front().plan));
      for (const BatchItem& item : batch.items) {
        CountPayload(item.plan, item.fragments, item.counts);
      }
      return;
    }
    // One kernel for the batch, chosen by its mean payload: most bytes of a mixed batch are in
    // large payloads.
    const Workload mean = {.payload_bytes = batch.bytes / std::max<size_t>(1, batch.items.size())};
    const std::optional<size_t> chosen = selector_.Choose(mean);
    const CpuKernel& kernel = chosen.has_value() ? ByteKernels()[*chosen]
                                                 : DefaultKernel(Plan().data(), mean.payload_bytes);
    batch.report.kernel = std::string(kernel.name);
    for (const BatchItem& item : batch.items) {
      std::fill(item.counts.begin(), item.counts.end(), 0);
      kernel.count(item.plan.data(), item.fragments, item.counts.data());
    }
  }

  // The time of a sample hardly depends on its type and its bins. Each payload's counters are
  // cleared and summed.
  uint64_t EstimateTypedNs(const Workload& workload) const {
    const double samples = static_cast<double>(workload.batch_bytes) / workload.sample_bytes;
    const double counters = static_cast<double>(workload.payload_count) * workload.bin_count;
    const double ns = samples * typed_ns_per_sample_ + counters * kAssumedNsPerCounter;
    return workload.payload_count * kAssumedNsPerPayload +
           static_cast<uint64_t>(std::clamp(ns, 1.0, 0x1p61));
  }

  struct Task {
    std::unique_ptr<Batch> batch;
    Done done;
  };

  void RunLane() {
    while (true) {
      Task task;
      {
        MutexLock lock(mutex_);
        while (tasks_.empty() && !stopping_) wake_.Wait(mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      Execute(*task.batch);
      task.done(std::move(task.batch));
    }
  }

  BackendInfo info_;
  const tuning::Selector selector_;
  const tuning::CostModel costs_;
  const double typed_ns_per_sample_;
  std::atomic<bool> up_{true};

  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_down_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::thread> threads_;  // last, because they use all other members
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options) {
  const uint32_t lanes = options.cpu_lanes > 0 ? options.cpu_lanes : histogram::UsableCores();
  if (lanes > kLanesMax) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("cpu_lanes is ", lanes, "; the limit is ", kLanesMax),
        {.reason = "BAD_OPTION", .field = "cpu_lanes", .limit = kLanesMax, .retry_after_ms = {}});
  }
  // What is measured: all kernels that run here, or only the forced one.
  std::vector<const CpuKernel*> kernels;
  std::vector<std::string> valid;
  for (const CpuKernel& kernel : ByteKernels()) {
    if (!kernel.supported()) continue;
    valid.emplace_back(kernel.name);
    if (options.force_kernel.empty() || options.force_kernel == kernel.name) {
      kernels.push_back(&kernel);
    }
  }
  if (kernels.empty()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("kernel '", options.force_kernel,
                     "' needs instructions that this processor lacks; valid here: ",
                     absl::StrJoin(valid, ", ")),
        {.reason = "UNKNOWN_KERNEL", .field = "kernel", .limit = 0, .retry_after_ms = {}});
  }
  std::vector<std::string> names;
  for (const CpuKernel& kernel : ByteKernels()) names.emplace_back(kernel.name);
  tuning::Selector selector(names,
                            options.tune ? MeasureTable(kernels) : std::vector<KernelChoice>(),
                            options.force_kernel);
  return std::make_unique<CpuBackend>(
      lanes, std::move(selector), options.tune ? MeasureTypedNsPerSample() : kAssumedNsPerSample);
}

std::vector<KernelInfo> ListCpuKernels() {
  return InfosOf(ByteKernels(), /*runnable=*/false, kByteValues);
}

}  // namespace histogram::cpu
