// Many threads at once: every job that was taken is done exactly once, and what it says is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

constexpr int kProducers = 4;
constexpr int kJobsEach = 1500;

// Lanes of a puppet: threads that finish batches until told to stop, some of them with an error,
// and all of a puppet that is lost.
class Lanes {
 public:
  Lanes(PuppetBackend& puppet, int threads, uint32_t fail_one_in) : puppet_(puppet) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i, fail_one_in] { Run(static_cast<uint32_t>(i), fail_one_in); });
    }
  }
  ~Lanes() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Run(uint32_t seed, uint32_t fail_one_in) {
    std::minstd_rand random(seed + 1);
    while (!stopping_) {
      const bool fail = !puppet_.up() || (fail_one_in > 0 && random() % fail_one_in == 0);
      if (!puppet_.TryFinish(fail ? absl::InternalError("at random") : absl::OkStatus())) {
        std::this_thread::yield();
      }
    }
  }

  PuppetBackend& puppet_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

// Enqueues jobs of random sizes, some of which are cancelled or expire.
void Produce(Batcher& batcher, uint32_t producer, std::vector<std::unique_ptr<TestJob>>& jobs) {
  std::minstd_rand random(producer + 17);
  for (int i = 0; i < kJobsEach; ++i) {
    const uint64_t sizes[] = {random() % 64, random() % 4096, 4096 + random() % 65536};
    const uint32_t kind = random() % 16;
    auto job = std::make_unique<TestJob>(sizes[kind == 0 ? 2 : kind % 2], producer * 3 + kind % 3);
    if (kind == 5) job->deadline = Clock::Monotonic().Now() + 100'000;
    const auto when_full =
        producer % 2 == 0 ? Batcher::WhenFull::kWait : Batcher::WhenFull::kRefuse;
    const auto outcome = batcher.Enqueue(job.get(), when_full);
    if (!outcome.ok()) {
      EXPECT_EQ(when_full, Batcher::WhenFull::kRefuse);
      EXPECT_EQ(job->done_count, 0);
      continue;
    }
    if (*outcome == Batcher::Outcome::kCounted) job->Counted();
    if (kind == 7) job->cancelled = true;
    jobs.push_back(std::move(job));
  }
}

void CheckAll(Batcher& batcher, const std::vector<std::unique_ptr<TestJob>>* jobs, int count) {
  for (int producer = 0; producer < count; ++producer) {
    for (const auto& job : jobs[producer]) {
      ASSERT_EQ(job->done_count, 1);
      ASSERT_TRUE(job->code != absl::StatusCode::kOk || job->exact);
    }
  }
  const Batcher::Snapshot snapshot = batcher.snapshot();
  EXPECT_EQ(snapshot.charged_bytes, 0u);
  EXPECT_EQ(snapshot.in_flight, 0u);
  EXPECT_EQ(snapshot.queue_payloads, 0u);
  EXPECT_EQ(snapshot.queue_bytes, 0u);
  EXPECT_EQ(snapshot.waiting, 0u);
}

BatchingLimits SmallLimits() {
  BatchingLimits limits;
  limits.queue_bytes_max = 512 << 10;
  limits.batch_bytes_max = 32 << 10;
  limits.batch_payloads_max = 16;
  limits.split_bytes_min = 24 << 10;
  limits.small_bytes_max = 8 << 10;
  limits.inline_bytes_max = 2048;
  return limits;
}

void RunProducers(Batcher& batcher, std::vector<std::unique_ptr<TestJob>>* jobs) {
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < kProducers; ++producer) {
    threads.emplace_back(
        [&batcher, jobs, producer] { Produce(batcher, producer, jobs[producer]); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Stress(const BatchingLimits& limits) {
  PuppetBackend gpu({.name = "gpu", .lanes = 2, .lane_bytes = 20 << 10, .lane_payloads = 8});
  PuppetBackend cpu({.name = "cpu", .lanes = 3, .kind = BackendKind::kCpu});
  gpu.set_estimate([](const Workload& w) { return 5000 + w.batch_bytes / 10; });
  cpu.set_estimate([](const Workload& w) { return 100 + w.batch_bytes; });
  std::vector<std::unique_ptr<TestJob>> jobs[kProducers];
  RecordingObserver observer;
  Batcher batcher({&gpu, &cpu}, limits, Clock::Monotonic(), observer);
  Lanes gpu_lanes(gpu, 2, 50);
  Lanes cpu_lanes(cpu, 2, 1000);
  RunProducers(batcher, jobs);
  batcher.Drain();
  EXPECT_TRUE(batcher.WaitIdle(kNever));
  CheckAll(batcher, jobs, kProducers);
  EXPECT_GT(observer.batches().size(), 100u);
}

TEST(BatcherStressTest, ManyThreads) { Stress(SmallLimits()); }

TEST(BatcherStressTest, ManyThreadsWithADelay) {
  BatchingLimits limits = SmallLimits();
  limits.batch_delay_us_max = 50;
  Stress(limits);
}

// The watchdog gives up on a backend in the middle of it all; its lanes come back later.
TEST(BatcherStressTest, ALaneHangsUnderLoad) {
  BatchingLimits limits = SmallLimits();
  limits.batch_us_max = 200'000;  // a busy machine may keep the other lanes from running, too
  PuppetBackend gpu({.name = "gpu", .lanes = 2});
  PuppetBackend cpu({.name = "cpu", .lanes = 3, .kind = BackendKind::kCpu});
  gpu.set_estimate([](const Workload&) { return 1; });
  std::vector<std::unique_ptr<TestJob>> jobs[kProducers];
  RecordingObserver observer;
  auto batcher = std::make_unique<Batcher>(std::vector<Backend*>{&gpu, &cpu}, limits,
                                           Clock::Monotonic(), observer);
  std::atomic<bool> down{false};
  std::thread late([&] {
    while (!down) std::this_thread::yield();
    while (gpu.TryFinish(absl::OkStatus())) {
    }
  });
  {
    Lanes cpu_lanes(cpu, 2, 0);
    RunProducers(*batcher, jobs);
    while (gpu.up()) std::this_thread::yield();
    down = true;
    EXPECT_TRUE(batcher->WaitIdle(kNever));
    CheckAll(*batcher, jobs, kProducers);
    batcher.reset();
  }
  late.join();
  gpu.CompleteAll();
  for (const auto& each : jobs) {
    for (const auto& job : each) ASSERT_EQ(job->done_count, 1);
  }
  const std::vector<std::string> downs = observer.downs();
  EXPECT_EQ(std::count(downs.begin(), downs.end(), "gpu:watchdog"), 1);
}

TEST(BatcherStressTest, TwoOfThreeAreLostWhileBusy) {
  for (int round = 0; round < 30; ++round) {
    PuppetBackend gpu0({.name = "cuda:0", .lanes = 4}), gpu1({.name = "cuda:1", .lanes = 4});
    PuppetBackend cpu({.name = "cpu", .lanes = 2, .kind = BackendKind::kCpu});
    for (PuppetBackend* gpu : {&gpu0, &gpu1}) gpu->set_estimate([](const Workload&) { return 10; });
    cpu.set_estimate([](const Workload&) { return 1'000'000; });
    std::vector<std::unique_ptr<TestJob>> jobs;
    RecordingObserver observer;
    Batcher batcher({&gpu0, &gpu1, &cpu}, {.inline_bytes_max = 0}, Clock::Monotonic(), observer);
    const Lanes of_gpu0(gpu0, 2, 0), of_gpu1(gpu1, 2, 0), of_cpu(cpu, 2, 0);
    for (int i = 0; i < 400; ++i) {
      if (i == 200) {
        gpu0.Lose();
        gpu1.Lose();
      }
      jobs.push_back(std::make_unique<TestJob>(100 + i, 1));
      ASSERT_TRUE(batcher.Enqueue(jobs.back().get(), Batcher::WhenFull::kWait).ok());
    }
    EXPECT_TRUE(batcher.WaitIdle(kNever));
    for (const auto& job : jobs) ASSERT_TRUE(job->ok()) << job->status;
    batcher.Pump();  // looks at all of them
    EXPECT_EQ(observer.downs().size(), 2u);
  }
}

}  // namespace
}  // namespace histogram::server
