// The batcher over both kinds of backend: who gets which payload, typed samples, phases.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/batching/batcher_fixture.h"

namespace histogram::server {
namespace {

// --- Both kinds of backend

class BothKindsTest : public BatcherFixture {
 protected:
  // The estimate gives payloads above 16 KiB to the GPU.
  BothKindsTest() {
    limits_.inline_bytes_max = kMiB;
    Add({.name = "cuda:0"});
    Add({.name = "cpu", .kind = BackendKind::kCpu});
    gpu().set_estimate([](const Workload&) { return 20'000; });
    cpu().set_estimate([](const Workload& w) { return w.batch_bytes; });
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
};

TEST_F(BothKindsTest, EachSizeGoesToItsKind) {
  EXPECT_TRUE(Enqueue(NewJob(1000), Outcome::kCounted).ok());
  TestJob& large = Enqueue(100 * kKiB);
  EXPECT_EQ(gpu().held(), 1u);
  gpu().Complete();
  EXPECT_TRUE(large.ok());
  std::string placed;
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.reason, "estimate");
    EXPECT_EQ(p.switches, 0u);
    if (!p.typed) placed += p.backend + " ";
  }
  EXPECT_EQ(placed, "cpu cpu cpu cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 ");
}

TEST_F(BothKindsTest, WaitsForItsKindWhileTheOtherIsFree) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  EXPECT_EQ(cpu().held() + cpu().executed_inline(), 0u);
  gpu().Complete();
  EXPECT_EQ(gpu().held(), 1u);
  gpu().Complete();
  EXPECT_TRUE(waits.ok());
}

TEST_F(BothKindsTest, ButNotForALaneThatIsLongOverdue) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  const TimeNs wake_at = batcher().Pump();
  EXPECT_EQ(wake_at, clock_.Now() + 20'000'000);
  clock_.AdvanceUs(20'100);
  batcher().Pump();
  ASSERT_EQ(cpu().held(), 1u);
  cpu().Complete();
  EXPECT_TRUE(waits.ok());
  gpu().Complete();
}

TEST_F(BothKindsTest, WhatWaitsForTheGpuDoesNotKeepTheCpuFromCounting) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  EXPECT_TRUE(Enqueue(NewJob(1000), Outcome::kCounted).ok());
  EXPECT_EQ(waits.done_count, 0);
  gpu().Complete();
  gpu().Complete();
}

TEST_F(BothKindsTest, OneKindIsDown) {
  batcher();
  gpu().Lose();
  TestJob& first = Enqueue(100 * kKiB);
  cpu().Complete();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(Enqueue(NewJob(100 * kKiB), Outcome::kCounted).ok());
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.backend, "cpu");
    EXPECT_EQ(p.reason, "only");
  }
}

TEST_F(BothKindsTest, WhatGetsMoreDoneIsChosen) {
  // The GPU answers twice as soon as the CPU counts.
  cpu().set_on_execute([&] { clock_.AdvanceUs(200); });
  const auto serve = [&](TimeNs us) {
    for (const TimeNs end = clock_.Now() + us * 1000; clock_.Now() < end;) {
      TestJob job(10'000);
      const auto outcome = batcher().Enqueue(&job, WhenFull::kRefuse);
      ASSERT_TRUE(outcome.ok());
      if (*outcome == Outcome::kCounted) continue;
      clock_.AdvanceUs(100);
      gpu().Complete();
      ASSERT_TRUE(job.ok());
    }
  };
  serve(1'000'000);
  const auto placements = batcher().snapshot().placements;
  EXPECT_EQ(placements[2].backend, "cuda:0");
  EXPECT_EQ(placements[2].reason, "trial");
  EXPECT_EQ(placements[2].switches, 1u);
  EXPECT_EQ(placements[1].backend, "cpu");
}

// --- Typed samples

class TypedJobsTest : public BatcherFixture {
 protected:
  explicit TypedJobsTest(uint64_t gpu_counters = 0) {
    limits_.split_bytes_min = 256 * kKiB;
    Add({.name = "cuda:0", .lane_counters = gpu_counters});
    Add({.name = "cpu", .lanes = 4, .kind = BackendKind::kCpu});
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
  TestJob& NewTyped(uint64_t bytes, SampleType type = SampleType::kF64) {
    return NewTyped(bytes, *Plan::Make(*Binning::Even(20, -1e3, 1e3), type));
  }
  TestJob& NewTyped(uint64_t bytes, const Plan& plan) {
    TestJob& job = NewJob(bytes);
    job.plan = plan;
    return job;
  }
};

TEST_F(TypedJobsTest, GoToABackendThatCountsThem) {
  gpu().set_estimate([](const Workload&) { return 1; });
  cpu().set_estimate([](const Workload&) { return 1'000'000; });
  EXPECT_EQ(batcher().counters_max(), UINT64_MAX);
  EXPECT_TRUE(batcher().has_cpu());
  TestJob& typed = Enqueue(NewTyped(8 * kKiB));
  TestJob& bytes = Enqueue(8 * kKiB);
  EXPECT_EQ(cpu().held(), 1u);
  EXPECT_EQ(gpu().held(), 1u);
  cpu().Complete();
  gpu().Complete();
  EXPECT_TRUE(typed.ok());
  EXPECT_TRUE(bytes.ok());
}

TEST_F(TypedJobsTest, ShareABatchWithTheirLikeOnly) {
  gpu().Lose();
  for (int i = 0; i < 4; ++i) Enqueue(kKiB);  // the lanes are busy
  std::vector<TestJob*> jobs = {&Enqueue(NewTyped(kKiB)), &Enqueue(NewTyped(2 * kKiB)),
                                &Enqueue(kKiB), &Enqueue(NewTyped(3 * kKiB, SampleType::kU16)),
                                &Enqueue(NewTyped(4 * kKiB, SampleType::kU16))};
  for (int i = 0; i < 4; ++i) cpu().Complete();
  EXPECT_EQ(cpu().sizes(0), (std::vector<uint64_t>{kKiB, 2 * kKiB}));
  EXPECT_EQ(cpu().sizes(1), (std::vector<uint64_t>{kKiB}));
  EXPECT_EQ(cpu().sizes(2), (std::vector<uint64_t>{3 * kKiB, 4 * kKiB}));
  for (int i = 0; i < 3; ++i) cpu().Complete();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
}

TEST_F(TypedJobsTest, AreCutBetweenSamples) {
  limits_.batch_bytes_max = 100'003;  // of no whole number of samples
  TestJob& job = Enqueue(NewTyped(kMiB));
  while (cpu().held() > 0) {
    EXPECT_EQ(cpu().sizes()[0] % 8, 0u);
    cpu().Complete();
  }
  EXPECT_TRUE(job.ok());
}

TEST_F(TypedJobsTest, FailWhereNoBackendIsLeftThatCountsThem) {
  TestJob& retried = Enqueue(NewTyped(kKiB));
  cpu().Fail(absl::UnavailableError("lost"));
  EXPECT_EQ(retried.status.code(), absl::StatusCode::kInternal);
  cpu().Lose();
  TestJob& job = Enqueue(NewTyped(kKiB));
  EXPECT_EQ(job.status.code(), absl::StatusCode::kUnavailable);
  TestJob& bytes = Enqueue(kKiB);
  gpu().Complete();
  EXPECT_TRUE(bytes.ok());
}

// Takes one phase, and notes what it was given.
class OnePhase final : public Phases {
 public:
  std::shared_ptr<Phases> Anew() const override { return std::make_shared<OnePhase>(); }
  std::optional<Phase> Next(std::span<const Fragment> payload) override {
    if (++calls > 1) return std::nullopt;
    for (const Fragment& fragment : payload) bytes += fragment.size();
    return ExtentPhase{SampleType::kU8};
  }
  PhaseLimits needs() const override { return needed; }
  void Found(const std::optional<Extent>& extent) override { found = extent.has_value(); }
  std::optional<Plan> PlanOver(uint64_t, const std::optional<Extent>&,
                               std::span<const std::byte>) override {
    return std::nullopt;
  }
  void Counted(uint64_t, std::span<const uint64_t>, std::span<const std::byte>) override {}

  PhaseLimits needed;
  int calls = 0;
  uint64_t bytes = 0;
  bool found = false;
};

// A GPU that has counters for three payloads of 20 bins.
class TypedGpuTest : public TypedJobsTest {
 protected:
  TypedGpuTest() : TypedJobsTest(3 * kSlots + 1) {
    gpu().set_estimate([](const Workload& w) { return w.sample_bytes > 0 ? 1 : 1'000'000; });
    cpu().set_estimate([](const Workload& w) { return w.sample_bytes > 0 ? 1'000'000 : 1; });
  }
  static constexpr uint64_t kSlots = 23;
  const Plan plan_ = *Plan::Make(*Binning::Even(20, -1e3, 1e3), SampleType::kF64);
};

// Each thread that receives requests makes a plan of its own.
TEST_F(TypedGpuTest, ABatchHasTheSameBinsAndAsManyPayloadsAsCounters) {
  constexpr uint64_t kEach = 2 * kKiB;
  for (const bool listed : {false, true}) {
    std::vector<TestJob*> jobs = {&Enqueue(NewTyped(kEach, plan_))};
    for (const double last : {1e3, 1e3, 1e3, 1e3, 2e3}) {
      Binning binning = *Binning::Even(20, -1e3, last);
      if (listed) binning = *Binning::Edges(binning.ComputeEdges());
      jobs.push_back(&Enqueue(NewTyped(kEach, *Plan::Make(binning, SampleType::kF64))));
    }
    for (const size_t payloads : {1, 3, 1, 1}) {
      EXPECT_EQ(gpu().sizes(), std::vector<uint64_t>(payloads, kEach));
      gpu().Complete();
    }
    for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
  }
}

TEST_F(TypedGpuTest, MoreCountersThanALaneHasGoToTheCpu) {
  const Plan large = *Plan::Make(*Binning::Even(100, -1e3, 1e3), SampleType::kF64);
  TestJob& job = Enqueue(NewTyped(2 * kKiB, large));
  EXPECT_EQ(gpu().held(), 0u);
  cpu().CompleteAll();
  EXPECT_TRUE(job.ok());
}

// A GPU that executes phases whose rows have up to 256 bins.
class PhasesGpuTest : public BatcherFixture {
 protected:
  PhasesGpuTest() {
    Add({.name = "cuda:0", .lane_bytes = 4096, .phases = {.row_bins = 256, .pixel_bytes = 8}});
    Add({.name = "cpu", .kind = BackendKind::kCpu, .phases = kAllPhases});
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
  TestJob& NewPhases(const PhaseLimits& needs) {
    TestJob& job = NewJob(8 * kKiB);  // more than the GPU's lane holds at once
    const auto phases = std::make_shared<OnePhase>();
    phases->needed = needs;
    job.phases = phases;
    job.plan = *Plan::Direct(*Binning::Even(20, -1e3, 1e3), SampleType::kF64);
    return job;
  }
};

TEST_F(PhasesGpuTest, PhasesGoToTheGpuWhereTheCpuIsLost) {
  EXPECT_EQ(batcher().phase_limits(), kAllPhases);
  TestJob& kept = Enqueue(NewPhases({}));
  EXPECT_EQ(gpu().held(), 0u);
  cpu().Complete();
  EXPECT_TRUE(kept.status.ok());
  cpu().Lose();
  TestJob& moved = Enqueue(NewPhases({.row_bins = 256, .pixel_bytes = 8}));
  EXPECT_EQ(gpu().sizes(), (std::vector<uint64_t>{8 * kKiB}));
  gpu().Complete();
  EXPECT_TRUE(moved.status.ok());
}

TEST_F(PhasesGpuTest, PhasesThatNeedMoreThanTheGpuHasFail) {
  batcher();
  cpu().Lose();
  for (const PhaseLimits& needs : {PhaseLimits{.row_bins = 257}, PhaseLimits{.pixel_bytes = 9}}) {
    EXPECT_EQ(Enqueue(NewPhases(needs)).status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(gpu().held(), 0u);
}

TEST_F(TypedGpuTest, PhasesGoToTheCpu) {
  TestJob& job = NewJob(2 * kKiB);
  job.phases = std::make_shared<OnePhase>();
  Enqueue(job);
  EXPECT_EQ(gpu().held(), 0u);
  cpu().CompleteAll();
  EXPECT_TRUE(job.status.ok());
}

TEST_F(TypedGpuTest, WhatAGpuLosesTheCpuCounts) {
  TestJob& job = Enqueue(NewTyped(2 * kKiB, plan_));
  gpu().Lose();
  gpu().Fail(absl::UnavailableError("lost"));
  cpu().CompleteAll();
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(job.report.backend, "cpu");
}

// Payloads that shared a batch on the CPU are split on the GPU, where their plans differ.
TEST_F(TypedGpuTest, WhatTheCpuFailsTheGpuCountsPlanByPlan) {
  cpu().set_estimate([](const Workload&) { return 0; });
  limits_.inline_bytes_max = 0;
  std::vector<TestJob*> jobs;
  const Plan other = *Plan::Make(*Binning::Even(20, -1e3, 2e3), SampleType::kF64);
  for (int i = 0; i < 12; ++i) jobs.push_back(&Enqueue(NewTyped(kKiB, i % 2 ? plan_ : other)));
  for (int i = 0; i < 4; ++i) cpu().Complete();
  EXPECT_GT(cpu().sizes().size(), 1u);
  cpu().Lose();
  while (cpu().held() > 0) cpu().Fail(absl::UnavailableError("lost"));
  gpu().CompleteAll();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
}

TEST_F(TypedGpuTest, BytesAndTypedSamplesAreTriedApart) {
  std::string typed, bytes;
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.reason, "estimate");
    (p.typed ? typed : bytes) += p.backend + " ";
  }
  EXPECT_EQ(bytes, "cpu cpu cpu cpu cpu cpu cpu cpu cpu ");
  EXPECT_EQ(typed, "cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 ");
}

TEST_F(TypedJobsTest, PhasesAreExecutedByALaneAloneAndUncut) {
  limits_.inline_bytes_max = kMiB;
  limits_.batch_bytes_max = 300'000;
  for (const uint64_t bytes : {kKiB, kMiB}) {
    TestJob& job = NewJob(bytes);
    const auto phases = std::make_shared<OnePhase>();
    job.phases = phases;
    EXPECT_EQ(Enqueue(job).done_count, 0);  // not on this thread
    EXPECT_EQ(cpu().sizes(), (std::vector<uint64_t>{bytes}));
    cpu().Complete();
    EXPECT_EQ(phases->calls, 2);
    EXPECT_EQ(phases->bytes, bytes);
    EXPECT_TRUE(phases->found);
    EXPECT_TRUE(job.status.ok());
  }
}

}  // namespace
}  // namespace histogram::server
