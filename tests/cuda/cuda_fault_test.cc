// What happens when a GPU fails. Poisoning a context spoils it for the whole process: run each test
// in a process of its own, as ctest does.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/phases_backend_contract.h"
#include "tests/kernels/typed_backend_contract.h"

namespace histogram::testing {
namespace {

class CudaFaultTest : public ::testing::Test {
 protected:
  using Future = std::future<std::unique_ptr<Batch>>;

  void SetUp() override { HISTOGRAM_SKIP_WITHOUT_GPU(); }

  // The first GPU, or all of them.
  void MakeWith(const std::string& faults, uint32_t lanes = 2, bool all = false) {
    BackendOptions options;
    options.cuda_lanes = lanes;
    options.tune = false;
    options.fault_injection = faults;
    std::vector<std::string> notes;
    auto backends = MakeCudaBackends(options, notes);
    ASSERT_TRUE(backends.ok()) << backends.status();
    ASSERT_GE(backends->size(), all ? 2U : 1U) << absl::StrJoin(notes, "; ");
    backends_ = *std::move(backends);
    if (!all) backends_.resize(1);
  }
  Backend& gpu(size_t i = 0) const { return *backends_[i]; }
  bool AnyUp() const {
    return std::any_of(backends_.begin(), backends_.end(), [](const auto& b) { return b->up(); });
  }
  Future Start(BatchFixture& fixture, size_t i = 0) {
    return testing::Start(gpu(i), fixture.MakeBatch());
  }
  absl::Status Run(BatchFixture& fixture, size_t i = 0) { return Start(fixture, i).get()->status; }

  // All lanes at once, until all are lost: each batch comes back, exact or UNAVAILABLE.
  void ExpectLossWhileBusy() {
    const size_t lanes = gpu().info().lanes;
    std::deque<BatchFixture> fixtures(lanes * backends_.size());
    for (size_t i = 0; i < fixtures.size(); ++i) {
      fixtures[i].Add(MakePayload(Distribution::kGauss, (3 << 20) + i, i), 65536);
    }
    int failures = 0;
    while (AnyUp()) {
      std::vector<Future> running;
      for (size_t i = 0; i < fixtures.size(); ++i) running.push_back(Start(fixtures[i], i / lanes));
      for (size_t i = 0; i < running.size(); ++i) {
        const absl::Status status = running[i].get()->status;
        if (status.ok()) {
          ASSERT_NO_FATAL_FAILURE(fixtures[i].ExpectExact());
        } else {
          EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
          ++failures;
        }
      }
    }
    EXPECT_GE(failures, 1);
    backends_.clear();  // frees nothing, and comes back
  }

  std::vector<std::unique_ptr<Backend>> backends_;
};

// Phases over windows of a payload, as a fixture.
class PhasesFixture {
 public:
  std::unique_ptr<Batch> MakeBatch() {
    phases_ =
        std::make_shared<CheckedPhases>(std::as_bytes(std::span(bytes_)), Plan(),
                                        RowCut{.kind = RowCut::Kind::kWindows, .window = 1000});
    auto batch = std::make_unique<Batch>();
    batch->bytes = bytes_.size();
    batch->items.push_back(
        {.fragments = {&fragment_, 1}, .bytes = bytes_.size(), .phases = phases_});
    return batch;
  }
  void ExpectExact() const { phases_->ExpectDone(); }

 private:
  const std::vector<uint8_t> bytes_ = MakePayload(Distribution::kGauss, 100'000);
  const Fragment fragment_{bytes_};
  std::shared_ptr<CheckedPhases> phases_;
};

// Payloads that are cut into portions, typed samples, and phases, of which a batch has several
// launches.
class CudaFaultOfEachWorkTest : public CudaFaultTest,
                                public ::testing::WithParamInterface<std::string> {
 protected:
  CudaFaultOfEachWorkTest() {
    if (GetParam() == "bytes") {
      auto bytes = std::make_shared<BatchFixture>();
      bytes->Add(MakePayload(Distribution::kUniform, 6 << 20), 99999);
      Take(bytes);
    } else if (GetParam() == "typed") {
      auto typed = std::make_shared<BatchFixture>(
          MakePlan(Binning::Even(2048, -4.0, 4.0), SampleType::kF32));
      std::mt19937_64 random(3);
      typed->Add(1 << 18, random, 99999);
      Take(typed);
    } else {
      Take(std::make_shared<PhasesFixture>());
    }
  }
  template <typename Fixture>
  void Take(std::shared_ptr<Fixture> fixture) {
    make_ = [fixture] { return fixture->MakeBatch(); };
    expect_exact_ = [fixture] { fixture->ExpectExact(); };
  }
  absl::Status Run() { return Execute(gpu(), make_())->status; }
  // Of the first batch or of the second one.
  absl::Status RunUntilOneFails() {
    const absl::Status first = Run();
    return first.ok() ? Run() : first;
  }

  std::function<std::unique_ptr<Batch>()> make_;
  std::function<void()> expect_exact_;
};

INSTANTIATE_TEST_SUITE_P(Cuda, CudaFaultOfEachWorkTest,
                         ::testing::Values("bytes", "typed", "phases"),
                         [](const auto& test) { return test.param; });

TEST_P(CudaFaultOfEachWorkTest, AFailedLaunchFailsItsBatchOnly) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("fail-launch=2"));
  EXPECT_EQ(RunUntilOneFails().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(gpu().up());
  EXPECT_TRUE(Run().ok());
  expect_exact_();
}

TEST_P(CudaFaultOfEachWorkTest, APoisonedContextTakesTheBackendDown) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=2"));
  EXPECT_EQ(RunUntilOneFails().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(gpu().up());
  for (int i = 0; i < 5; ++i) {
    const absl::Status after = Run();
    EXPECT_EQ(after.code(), absl::StatusCode::kUnavailable) << after;
    EXPECT_TRUE(absl::StrContains(after.message(), "cuda:0 is down")) << after;
  }
  backends_.clear();  // frees nothing, and comes back
}

// The watchdog's case: the device never answers. The batch comes back all the same.
TEST_P(CudaFaultOfEachWorkTest, AHangingBatchComesBackWhenMarkedDown) {
  // Of phases the first is done, and the second one hangs.
  ASSERT_NO_FATAL_FAILURE(MakeWith(GetParam() == "phases" ? "hang-launch=2" : "hang-launch=1", 1));
  Future hanging = testing::Start(gpu(), make_());
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  gpu().MarkDown("a batch outlived batch_us_max");
  std::unique_ptr<Batch> batch = hanging.get();
  EXPECT_EQ(batch->status.code(), absl::StatusCode::kUnavailable) << batch->status;
  EXPECT_TRUE(absl::StrContains(batch->status.message(), "outlived")) << batch->status;
  batch.reset();
  make_ = nullptr;
  expect_exact_ = nullptr;  // the lane reads neither the payload nor the batch from now on
}

TEST_F(CudaFaultTest, APoisonedContextWhileEveryLaneIsBusy) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=20", 4));
  ExpectLossWhileBusy();
}

TEST_F(CudaFaultTest, AHangLeavesTheOtherLaneAlone) {
  BatchFixture small, large;
  small.Add(MakePayload(Distribution::kGauss, 100000), 999);
  large.Add(MakePayload(Distribution::kUniform, 6 << 20), 99999);
  ASSERT_NO_FATAL_FAILURE(MakeWith("hang-launch=1"));
  // One of these two hangs, whichever is launched first.
  Future hanging = Start(small), other = Start(large);
  while (other.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (hanging.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) {
      std::swap(hanging, other);
    }
  }
  EXPECT_TRUE(other.get()->status.ok());
  gpu().MarkDown("a batch outlived batch_us_max");
  EXPECT_EQ(hanging.get()->status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(CudaFaultTest, TooLittleMemoryLeavesTheDeviceOut) {
  BackendOptions options;
  options.fault_injection = "out-of-memory";
  std::vector<std::string> notes;
  const auto backends = MakeCudaBackends(options, notes);
  ASSERT_TRUE(backends.ok()) << backends.status();
  EXPECT_TRUE(backends->empty());
  ASSERT_FALSE(notes.empty());
  EXPECT_TRUE(absl::StrContains(notes.front(), "cuda:0 is not used")) << notes.front();
  EXPECT_TRUE(absl::StrContains(notes.front(), "cudaErrorMemoryAllocation")) << notes.front();
}

TEST_F(CudaFaultTest, NoDeviceBehindADriver) {
  BackendOptions options;
  options.fault_injection = "no-device";
  std::vector<std::string> notes;
  const auto backends = MakeCudaBackends(options, notes);
  ASSERT_TRUE(backends.ok()) << backends.status();
  EXPECT_TRUE(backends->empty());
  EXPECT_EQ(notes, std::vector<std::string>{"a CUDA driver is installed, but it sees no GPU"});
}

// --- Several GPUs: each works by itself, and one that hangs leaves the others alone. A poisoned
// context is the loss of all.

class CudaGpusTest : public CudaFaultTest {
 protected:
  void SetUp() override {
    std::vector<std::string> notes;
    const size_t gpus = cuda::FindDevices(cuda::FaultPlan(), notes).size();
    if (gpus < 2) GTEST_SKIP() << "needs two GPUs, and " << gpus << " can be used";
    fixture_.Add(MakePayload(Distribution::kGauss, 100000), 999);
    large_.Add(MakePayload(Distribution::kUniform, 9 << 20), 99999);
  }
  void MakeAllWith(const std::string& faults) { MakeWith(faults, 2, /*all=*/true); }

  BatchFixture fixture_, large_;
};

TEST_F(CudaGpusTest, EachIsABackendOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(MakeAllWith(""));
  std::set<std::string> names, uuids;
  for (size_t i = 0; i < backends_.size(); ++i) {
    names.insert(backends_[i]->info().name);
    uuids.insert(backends_[i]->info().uuid);
  }
  EXPECT_EQ(names.size(), backends_.size());
  EXPECT_EQ(uuids.size(), backends_.size());
  EXPECT_EQ(*names.begin(), "cuda:0");
}

// All at once, each with batches of its own, again and again.
TEST_F(CudaGpusTest, AllCountTheSameAtTheSameTime) {
  ASSERT_NO_FATAL_FAILURE(MakeAllWith(""));
  std::deque<BatchFixture> fixtures(2 * backends_.size());
  for (size_t i = 0; i < fixtures.size(); ++i) {
    const Distribution distribution = i % 2 == 0 ? Distribution::kUniform : Distribution::kLetters;
    fixtures[i].Add(MakePayload(distribution, (3 << 20) + i, i), 65536);
    for (int k = 0; k < 50; ++k) fixtures[i].Add(MakePayload(distribution, 1000 + k, k));
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<Future> running;
    for (size_t i = 0; i < fixtures.size(); ++i) {
      running.push_back(Start(fixtures[i], i / 2));
    }
    for (size_t i = 0; i < running.size(); ++i) {
      const std::unique_ptr<Batch> batch = running[i].get();
      ASSERT_TRUE(batch->status.ok()) << batch->status;
      EXPECT_EQ(batch->report.backend, backends_[i / 2]->info().name);
      ASSERT_NO_FATAL_FAILURE(fixtures[i].ExpectExact());
    }
  }
}

TEST_F(CudaGpusTest, APoisonedContextIsTheLossOfAll) {
  ASSERT_NO_FATAL_FAILURE(MakeAllWith("poison-launch=1"));
  EXPECT_EQ(Run(large_, 1).code(), absl::StatusCode::kUnavailable);
  for (size_t i = 0; i < backends_.size(); ++i) {
    EXPECT_FALSE(gpu(i).up()) << i;
    const absl::Status after = Run(fixture_, i);
    EXPECT_EQ(after.code(), absl::StatusCode::kUnavailable) << after;
    EXPECT_TRUE(absl::StrContains(after.message(), gpu(i).info().name + " is down")) << after;
    const char* const why = i == 1 ? "cudaError" : "since cuda:1 was lost";
    EXPECT_TRUE(absl::StrContains(after.message(), why)) << after;
  }
  backends_.clear();  // frees nothing, and comes back
}

TEST_F(CudaGpusTest, APoisonedContextWhileAllAreBusy) {
  ASSERT_NO_FATAL_FAILURE(MakeAllWith("poison-launch=40"));
  ExpectLossWhileBusy();
}

TEST_F(CudaGpusTest, AHangOfOneHoldsUpNoOther) {
  ASSERT_NO_FATAL_FAILURE(MakeAllWith("hang-launch=1"));
  Future hanging = Start(large_, 0);
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Run(fixture_, 1).ok()) << i;
    ASSERT_NO_FATAL_FAILURE(fixture_.ExpectExact());
  }
  gpu().MarkDown("a batch outlived batch_us_max");
  EXPECT_EQ(hanging.get()->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Run(large_, 1).ok());
  large_.ExpectExact();
}

}  // namespace
}  // namespace histogram::testing
