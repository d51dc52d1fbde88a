// Two of three backends are lost at the same time: what they had, and what was on its way from one
// to the other, is counted by the third, once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/batching/batcher_fixture.h"

namespace histogram::server {
namespace {

using Strings = std::vector<std::string>;

class BatcherLossTest : public BatcherFixture {
 protected:
  void AddGpusAndCpu(uint32_t lanes) {
    Add({.name = "cuda:0", .lanes = lanes, .lane_bytes = 4096});
    Add({.name = "cuda:1", .lanes = lanes, .lane_bytes = 4096});
    Add({.name = "cpu", .lanes = lanes, .kind = BackendKind::kCpu});
    for (size_t gpu : {0, 1}) puppet(gpu).set_estimate([](const Workload&) { return 10; });
    puppet(2).set_estimate([](const Workload&) { return 1'000'000; });
  }
  // As after a poisoned context: nothing that a GPU holds or gets is counted any more.
  void LoseBoth() {
    puppet(0).Lose();
    puppet(1).Lose();
  }
  static absl::Status Poisoned() { return absl::UnavailableError("cudaErrorIllegalAddress"); }
};

TEST_F(BatcherLossTest, BothBeforeEitherReturnsItsBatches) {
  AddGpusAndCpu(2);
  for (int i = 0; i < 4; ++i) Enqueue(1000);
  ASSERT_EQ(puppet(0).held(), 2u);
  ASSERT_EQ(puppet(1).held(), 2u);
  LoseBoth();
  for (size_t gpu : {0, 1, 1, 0}) puppet(gpu).Fail(Poisoned());
  EXPECT_EQ(puppet(0).held() + puppet(1).held(), 0u) << "nothing goes to what is lost";
  while (puppet(2).held() > 0) puppet(2).Complete();
  for (const auto& job : jobs_) {
    EXPECT_TRUE(job->ok()) << job->status;
    EXPECT_EQ(job->report.backend, "cpu");
  }
  EXPECT_EQ(observer_.downs(), (Strings{"cuda:0:device_lost", "cuda:1:device_lost"}));
  EXPECT_EQ(observer_.queued, 4);
}

// The first one's batch is given to the second just before that is lost too: it fails once more.
TEST_F(BatcherLossTest, TheSecondWhileItTakesOverFromTheFirst) {
  AddGpusAndCpu(1);
  TestJob& job = Enqueue(1000);
  ASSERT_EQ(puppet(0).held(), 1u);
  puppet(0).Lose();
  puppet(0).Fail(Poisoned());
  ASSERT_EQ(puppet(1).held(), 1u);
  puppet(1).Lose();
  puppet(1).Fail(Poisoned());
  ASSERT_EQ(puppet(2).held(), 1u);
  puppet(2).Complete();
  EXPECT_TRUE(job.ok()) << job.status;
  EXPECT_EQ(observer_.fell_back(),
            (Strings{"cuda:0>cuda:1:device_lost", "cuda:1>cpu:device_lost"}));
}

// A payload in pieces on both, of which the third counts all that was not counted before.
TEST_F(BatcherLossTest, PiecesOnBoth) {
  AddGpusAndCpu(2);
  TestJob& job = Enqueue(32768);  // eight lanes' worth
  ASSERT_GE(puppet(0).held(), 1u);
  ASSERT_GE(puppet(1).held(), 1u);
  puppet(0).Complete();
  LoseBoth();
  while (puppet(0).held() + puppet(1).held() > 0) {
    for (size_t gpu : {1, 0}) {
      if (puppet(gpu).held() > 0) puppet(gpu).Fail(Poisoned());
    }
  }
  while (puppet(2).held() > 0) puppet(2).Complete();
  EXPECT_TRUE(job.ok()) << job.status;
}

// With a thread for each lane and callers that go on meanwhile.
TEST(BatcherLossStressTest, BothWhileBusy) {
  for (int round = 0; round < 30; ++round) {
    PuppetBackend gpu0({.name = "cuda:0", .lanes = 4}), gpu1({.name = "cuda:1", .lanes = 4});
    PuppetBackend cpu({.name = "cpu", .lanes = 2, .kind = BackendKind::kCpu});
    for (PuppetBackend* gpu : {&gpu0, &gpu1}) {
      gpu->set_estimate([](const Workload&) { return 10; });
    }
    cpu.set_estimate([](const Workload&) { return 1'000'000; });
    RecordingObserver observer;
    BatchingLimits limits;
    limits.inline_bytes_max = 0;
    Batcher batcher({&gpu0, &gpu1, &cpu}, limits, Clock::Monotonic(), observer);
    std::atomic<bool> lost{false}, stop{false};
    std::vector<std::thread> threads;
    for (PuppetBackend* backend : {&gpu0, &gpu0, &gpu1, &gpu1, &cpu, &cpu}) {
      threads.emplace_back([backend, &lost, &stop, &cpu] {
        while (!stop) {
          const bool fails = backend != &cpu && lost;
          const absl::Status status =
              fails ? absl::UnavailableError("cudaErrorIllegalAddress") : absl::OkStatus();
          if (!backend->TryFinish(status)) std::this_thread::yield();
        }
      });
    }
    std::vector<std::unique_ptr<TestJob>> jobs;
    for (int i = 0; i < 400; ++i) {
      if (i == 200) {
        lost = true;
        gpu0.Lose();
        gpu1.Lose();
      }
      jobs.push_back(std::make_unique<TestJob>(100 + i, 1));
      ASSERT_TRUE(batcher.Enqueue(jobs.back().get(), Batcher::WhenFull::kWait).ok());
    }
    EXPECT_TRUE(batcher.WaitIdle(Clock::Monotonic().Now() + 20'000'000'000));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (const auto& job : jobs) ASSERT_TRUE(job->ok()) << job->status;
    batcher.Pump();  // looks at all of them
    EXPECT_EQ(observer.downs().size(), 2u);
  }
}

}  // namespace
}  // namespace histogram::server
