// A batcher over puppets, with a clock that the test moves and no thread of its own.
#ifndef HISTOGRAM_TESTS_BATCHING_BATCHER_FIXTURE_H_
#define HISTOGRAM_TESTS_BATCHING_BATCHER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/error.h"
#include "server/batching/batcher.h"
#include "tests/batching/fake_clock.h"
#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"

namespace histogram::server {

class BatcherFixture : public testing::Test {
 protected:
  static constexpr uint64_t kKiB = 1 << 10;
  static constexpr uint64_t kMiB = 1 << 20;
  using WhenFull = Batcher::WhenFull;
  using Outcome = Batcher::Outcome;

  BatcherFixture() { limits_.inline_bytes_max = 0; }
  ~BatcherFixture() override {
    if (batcher_ == nullptr) return;
    EXPECT_TRUE(batcher_->WaitIdle(clock_.Now())) << "the test left something behind";
    ExpectIdle();
  }

  PuppetBackend& Add(const PuppetOptions& options) {
    return *puppets_.emplace_back(std::make_unique<PuppetBackend>(options));
  }
  PuppetBackend& puppet(size_t i = 0) { return *puppets_[i]; }

  // The batcher, over the puppets added so far, from the first call on.
  Batcher& batcher() {
    if (batcher_ == nullptr) {
      std::vector<Backend*> backends;
      for (const auto& each : puppets_) backends.push_back(each.get());
      batcher_ = std::make_unique<Batcher>(backends, limits_, clock_, observer_, false);
    }
    return *batcher_;
  }

  TestJob& NewJob(uint64_t bytes, uint64_t caller = 1) {
    return *jobs_.emplace_back(std::make_unique<TestJob>(bytes, caller));
  }
  // Enqueues a job that must be taken.
  TestJob& Enqueue(uint64_t bytes, uint64_t caller = 1) { return Enqueue(NewJob(bytes, caller)); }
  TestJob& Enqueue(TestJob& job, Outcome expected = Outcome::kQueued) {
    const auto outcome = batcher().Enqueue(
        &job, expected == Outcome::kWaiting ? WhenFull::kWait : WhenFull::kRefuse);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome.value_or(expected), expected);
    if (outcome.ok() && *outcome == Outcome::kCounted) job.Counted();
    return job;
  }
  ErrorDetail Refused(TestJob& job, absl::StatusCode code, WhenFull when_full) {
    const auto outcome = batcher().Enqueue(&job, when_full);
    EXPECT_EQ(outcome.status().code(), code) << outcome.status();
    EXPECT_EQ(job.done_count, 0);
    last_message_ = std::string(outcome.status().message());
    return GetErrorDetail(outcome.status());
  }

  void ExpectIdle() {
    const Batcher::Snapshot snapshot = batcher().snapshot();
    EXPECT_EQ(snapshot.queue_payloads, 0u);
    EXPECT_EQ(snapshot.queue_bytes, 0u);
    EXPECT_EQ(snapshot.in_flight, 0u);
    EXPECT_EQ(snapshot.charged_bytes, 0u);
    EXPECT_EQ(snapshot.waiting, 0u);
  }

  FakeClock clock_;
  RecordingObserver observer_;
  BatchingLimits limits_;
  std::vector<std::unique_ptr<PuppetBackend>> puppets_;
  std::deque<std::unique_ptr<TestJob>> jobs_;
  std::unique_ptr<Batcher> batcher_;
  std::string last_message_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_BATCHING_BATCHER_FIXTURE_H_
