// Jobs and an observer that remember what happened to them.
#ifndef HISTOGRAM_TESTS_BATCHING_TEST_JOB_H_
#define HISTOGRAM_TESTS_BATCHING_TEST_JOB_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/mutex.h"
#include "kernels/reference.h"
#include "server/batching/job.h"
#include "tests/base/no_observer.h"

namespace histogram::server {

// A payload in fragments of uneven sizes, and how often each of its values occurs.
struct TestPayload {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<Fragment> fragments;
  uint64_t size = 0;
  std::vector<uint64_t> counts = std::vector<uint64_t>(kByteValues);

  explicit TestPayload(uint64_t payload_bytes, uint64_t seed = 1) : size(payload_bytes) {
    uint64_t state = seed * 0x9E3779B97F4A7C15 + payload_bytes;
    for (uint64_t left = payload_bytes; left > 0;) {
      const uint64_t step = state % 7 == 0 ? left : std::min<uint64_t>(left, 1 + left / 2);
      std::vector<uint8_t>& part = bytes.emplace_back(step);
      for (uint8_t& value : part) {
        state = state * 6364136223846793005 + 1442695040888963407;
        value = static_cast<uint8_t>(state >> 56);
        ++counts[value];
      }
      left -= step;
    }
    for (const auto& part : bytes) fragments.emplace_back(part.data(), part.size());
  }
};

// Looks into a job's notes.
class JobTestPeer {
 public:
  static bool Charged(const Job& job) { return job.notes_.charged; }
};

class TestJob : public Job {
 public:
  explicit TestJob(uint64_t payload_bytes, uint64_t caller_id = 1)
      : payload_(std::make_shared<TestPayload>(payload_bytes, caller_id)) {
    fragments = payload_->fragments;
    payload_owner = payload_;
    bytes = payload_bytes;
    charge_bytes = payload_bytes + 100;
    caller = caller_id;
    counters.assign(kByteValues, 99);  // must be overwritten
  }
  ~TestJob() override { EXPECT_LE(done_count, 1); }

  // Whoever enqueued it was told that it is counted: does what Done would have done.
  void Counted() {
    EXPECT_EQ(done_count, 0) << "counted where it arrived, and Done was called";
    Done(absl::OkStatus());
  }
  void Done(const absl::Status& result) override {
    ++done_count;
    code = result.code();
    status = result;
    exact = counters == ReferenceCounters(payload_->fragments, plan);
    // Poisoned: from here on only a lane that hangs may read it.
    payload_.reset();
    payload_owner.reset();
    fragments = {};
    if (on_done) on_done();
  }

  bool ok() const { return done_count == 1 && status.ok() && exact; }
  std::weak_ptr<TestPayload> payload() const { return payload_; }

  std::function<void()> on_done;
  std::atomic<int> done_count{0};
  std::atomic<absl::StatusCode> code{absl::StatusCode::kUnknown};
  absl::Status status = absl::UnknownError("not done");
  bool exact = false;

 private:
  std::shared_ptr<TestPayload> payload_;
};

// Thread-safe.
class RecordingObserver final : public NoObserver {
 public:
  void BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) override {
    MutexLock lock(mutex_);
    batches_.push_back({report.backend, report.payloads, bytes, closed_by});
  }
  void StageFinished(Stage stage, std::string_view /*backend*/, uint64_t /*ns*/) override {
    if (stage == Stage::kQueue) ++queued;
  }
  void Expired() override { ++expired; }
  void Cancelled() override { ++cancelled; }
  void FellBack(std::string_view from, std::string_view to, std::string_view reason) override {
    MutexLock lock(mutex_);
    fell_back_.push_back(std::string(from) + ">" + std::string(to) + ":" + std::string(reason));
  }
  void BackendDown(std::string_view backend, std::string_view reason) override {
    MutexLock lock(mutex_);
    downs_.push_back(std::string(backend) + ":" + std::string(reason));
  }

  struct BatchRecord {
    std::string backend;
    uint32_t payloads = 0;
    uint64_t bytes = 0;
    ClosedBy closed_by = ClosedBy::kIdle;
  };
  std::vector<BatchRecord> batches() const {
    MutexLock lock(mutex_);
    return batches_;
  }
  std::vector<std::string> fell_back() const {
    MutexLock lock(mutex_);
    return fell_back_;
  }
  std::vector<std::string> downs() const {
    MutexLock lock(mutex_);
    return downs_;
  }

  std::atomic<int> queued{0}, expired{0}, cancelled{0};

 private:
  mutable Mutex mutex_;
  std::vector<BatchRecord> batches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> fell_back_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> downs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_BATCHING_TEST_JOB_H_
