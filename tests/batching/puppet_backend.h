// A backend that does nothing until the test says so: batches are held until the test completes or
// fails them, or lets them hang. Checks the contract of Backend from the backend's side.
//
// Thread-safe. Counts with the plain loops of kernels/reference.h, reading the fragments only when
// it completes, so that AddressSanitizer sees payloads that were freed too early.
#ifndef HISTOGRAM_TESTS_BATCHING_PUPPET_BACKEND_H_
#define HISTOGRAM_TESTS_BATCHING_PUPPET_BACKEND_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/mutex.h"
#include "kernels/reference.h"
#include "server/base/clock.h"

namespace histogram::server {

struct PuppetOptions {
  std::string name = "puppet";
  uint32_t lanes = 1;
  uint64_t lane_bytes = UINT64_MAX;
  uint32_t lane_payloads = UINT32_MAX;
  BackendKind kind = BackendKind::kGpu;
  uint64_t lane_counters = UINT64_MAX;
  PhaseLimits phases = {};
  const Clock* clock = nullptr;  // for held_since
};

class PuppetBackend final : public Backend {
 public:
  explicit PuppetBackend(const PuppetOptions& options = {}) {
    clock_ = options.clock;
    info_.name = options.name;
    info_.lanes = options.lanes;
    info_.lane_bytes = options.lane_bytes;
    info_.lane_payloads = options.lane_payloads;
    info_.kind = options.kind;
    info_.lane_counters = options.lane_counters;
    info_.phases = options.phases;
  }
  ~PuppetBackend() override { EXPECT_EQ(held(), 0u) << info_.name << ": batches left behind"; }

  // What the test does. `index` counts the batches that are held, the oldest being 0.
  size_t held() const {
    MutexLock lock(mutex_);
    return held_.size();
  }
  // Payload sizes of a held batch.
  std::vector<uint64_t> sizes(size_t index = 0) const {
    MutexLock lock(mutex_);
    std::vector<uint64_t> sizes;
    if (index >= held_.size()) {
      ADD_FAILURE() << info_.name << " holds " << held_.size() << " batches";
      return sizes;
    }
    for (const BatchItem& item : held_[index].batch->items) sizes.push_back(item.bytes);
    return sizes;
  }
  // When a batch was submitted. REQUIRES: a clock.
  TimeNs held_since(size_t index) const {
    MutexLock lock(mutex_);
    return held_.at(index).since;
  }
  int64_t deadline(size_t index = 0) const {
    MutexLock lock(mutex_);
    return held_.at(index).batch->deadline_ns;
  }
  // Completes a batch, or fails it where it was submitted to a backend that was down.
  void Complete(size_t index = 0) { Fail(absl::OkStatus(), index); }
  void CompleteAll() {
    while (TryFinish(absl::OkStatus())) continue;
  }
  void Fail(const absl::Status& status, size_t index = 0) {
    EXPECT_TRUE(TryFinish(status, index)) << info_.name << " holds no batch " << index;
  }
  // Finishes a batch, if there is one: completes it, or fails it with `status`.
  bool TryFinish(const absl::Status& status, size_t index = 0) {
    Held held;
    {
      MutexLock lock(mutex_);
      if (index >= held_.size()) return false;
      held = std::move(held_[index]);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    held.batch->status = status.ok() ? Count(*held.batch, held.refused) : status;
    held.done(std::move(held.batch));
    return true;
  }
  // The device is gone: what is held may still be failed or completed.
  void Lose() { up_ = false; }
  uint64_t executed_inline() const { return executed_inline_; }
  // How often it was asked whether it is up.
  uint64_t asked() const { return asked_; }
  std::string marked_down() const {
    MutexLock lock(mutex_);
    return marked_down_;
  }
  void set_estimate(std::function<uint64_t(const Workload&)> estimate) {
    estimate_ = std::move(estimate);
  }
  // Called in the middle of Execute.
  void set_on_execute(std::function<void()> on_execute) { on_execute_ = std::move(on_execute); }
  void set_execute_status(absl::Status status) { execute_status_ = std::move(status); }

  // --- Backend
  const BackendInfo& info() const override { return info_; }
  std::vector<KernelInfo> kernels() const override { return {}; }
  std::vector<KernelChoice> choices() const override { return {}; }
  bool up() const override {
    ++asked_;
    return up_;
  }
  void MarkDown(const std::string& why) override {
    MutexLock lock(mutex_);
    marked_down_ = why;
    up_ = false;
  }
  uint64_t EstimateNs(const Workload& workload) const override {
    return estimate_ ? estimate_(workload) : 1000 + workload.batch_bytes;
  }
  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    Check(*batch);
    MutexLock lock(mutex_);
    EXPECT_LT(held_.size(), info_.lanes) << info_.name << ": more batches than lanes";
    held_.push_back({.batch = std::move(batch),
                     .done = std::move(done),
                     .refused = !up_,
                     .since = clock_ == nullptr ? 0 : clock_->Now()});
  }
  void Execute(Batch& batch) override {
    EXPECT_EQ(info_.kind, BackendKind::kCpu);
    Check(batch);
    ++executed_inline_;
    const bool refused = !up_;
    if (const auto on_execute = on_execute_; on_execute) on_execute();  // may replace itself
    batch.status = execute_status_.ok() ? Count(batch, refused) : execute_status_;
  }

 private:
  struct Held {
    std::unique_ptr<Batch> batch;
    Done done;
    bool refused = false;
    TimeNs since = 0;
  };

  void Check(const Batch& batch) const {
    EXPECT_FALSE(batch.items.empty());
    EXPECT_TRUE(batch.bytes <= info_.lane_bytes || batch.items.front().phases != nullptr);
    EXPECT_LE(batch.items.size(), info_.lane_payloads);
    const bool on_gpu = info_.kind == BackendKind::kGpu;
    uint64_t bytes = 0, counters = 0;
    for (const BatchItem& item : batch.items) {
      uint64_t item_bytes = 0;
      for (const Fragment& fragment : item.fragments) item_bytes += fragment.size();
      EXPECT_EQ(item_bytes, item.bytes);
      const Plan& first = batch.items.front().plan;
      EXPECT_EQ(item.plan.counts_values(), first.counts_values());
      EXPECT_TRUE(item.phases == nullptr || batch.items.size() == 1);
      EXPECT_TRUE(item.phases == nullptr || info_.phases.Cover(item.phases->needs()));
      if (on_gpu && !item.plan.counts_values()) {
        EXPECT_EQ(item.plan.binning().ComputeEdges(), first.binning().ComputeEdges());
      }
      if (!item.plan.counts_values()) counters += item.counts.size();
      EXPECT_EQ(item.counts.size(), item.phases == nullptr ? item.plan.counter_count() : 0);
      bytes += item.bytes;
    }
    EXPECT_EQ(bytes, batch.bytes);
    EXPECT_LE(counters, info_.lane_counters);
  }

  absl::Status Count(Batch& batch, bool refused) const {
    if (refused) return absl::UnavailableError(info_.name + " is down");
    batch.report = {.backend = info_.name,
                    .kernel = "puppet",
                    .payloads = static_cast<uint32_t>(batch.items.size())};
    for (const BatchItem& item : batch.items) {
      if (item.phases != nullptr) {
        RunPhases(*item.phases, item.fragments);
        continue;
      }
      const std::vector<uint64_t> counters = ReferenceCounters(item.fragments, item.plan);
      std::copy(counters.begin(), counters.end(), item.counts.begin());
    }
    return absl::OkStatus();
  }

  BackendInfo info_;
  const Clock* clock_ = nullptr;
  std::atomic<bool> up_{true};
  std::atomic<uint64_t> executed_inline_{0};
  mutable std::atomic<uint64_t> asked_{0};
  std::function<uint64_t(const Workload&)> estimate_;
  std::function<void()> on_execute_;
  absl::Status execute_status_;
  mutable Mutex mutex_;
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::string marked_down_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_BATCHING_PUPPET_BACKEND_H_
