// What happens when a GPU fails. Poisoning a context spoils it for the whole process: run each test
// in a process of its own, as ctest does.
#include "absl/strings/match.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/phases_backend_contract.h"
#include "tests/kernels/typed_backend_contract.h"

namespace histogram::testing {
namespace {

class CudaFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HISTOGRAM_SKIP_WITHOUT_GPU();
    fixture_.Add(MakePayload(Distribution::kGauss, 100000), 999);
    large_.Add(MakePayload(Distribution::kUniform, 6 << 20), 99999);
    std::mt19937_64 random(3);
    typed_.Add(1 << 18, random, 99999);
  }

  void MakeWith(const std::string& faults, uint32_t lanes = 2) {
    BackendOptions options;
    options.cuda_lanes = lanes;
    options.tune = false;
    options.fault_injection = faults;
    std::vector<std::string> notes;
    auto backends = MakeCudaBackends(options, notes);
    ASSERT_TRUE(backends.ok()) << backends.status();
    ASSERT_FALSE(backends->empty()) << notes.front();
    backend_ = std::move(backends->front());
  }

  template <typename Fixture>
  std::future<std::unique_ptr<Batch>> Start(Fixture& fixture) {
    auto promise = std::make_shared<std::promise<std::unique_ptr<Batch>>>();
    backend_->Submit(fixture.MakeBatch(), [promise](std::unique_ptr<Batch> done) {
      promise->set_value(std::move(done));
    });
    return promise->get_future();
  }
  template <typename Fixture>
  absl::Status Run(Fixture& fixture) {
    return Start(fixture).get()->status;
  }

  BatchFixture fixture_, large_;
  TypedBatchFixture typed_{MakePlan(Binning::Even(2048, -4.0, 4.0), SampleType::kF32)};
  std::unique_ptr<Backend> backend_;
};

TEST_F(CudaFaultTest, AFailedLaunchFailsItsBatchOnly) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("fail-launch=2"));
  EXPECT_TRUE(Run(fixture_).ok());
  const absl::Status failed = Run(large_);
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal) << failed;
  EXPECT_TRUE(backend_->up());
  EXPECT_TRUE(Run(large_).ok());
  large_.ExpectExact();
  EXPECT_TRUE(Run(fixture_).ok());
  fixture_.ExpectExact();
}

TEST_F(CudaFaultTest, AFailedLaunchFailsItsTypedBatchOnly) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("fail-launch=2"));
  EXPECT_TRUE(Run(typed_).ok());
  typed_.ExpectExact();
  EXPECT_EQ(Run(typed_).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(backend_->up());
  EXPECT_TRUE(Run(typed_).ok());
  typed_.ExpectExact();
}

TEST_F(CudaFaultTest, APoisonedContextLosesTypedSamples) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=2"));
  EXPECT_TRUE(Run(typed_).ok());
  EXPECT_EQ(Run(typed_).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(backend_->up());
  EXPECT_EQ(Run(typed_).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CudaFaultTest, AHangingTypedBatchComesBackWhenMarkedDown) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("hang-launch=1", 1));
  std::future<std::unique_ptr<Batch>> hanging = Start(typed_);
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  backend_->MarkDown("a batch outlived batch_us_max");
  EXPECT_EQ(hanging.get()->status.code(), absl::StatusCode::kUnavailable);
}

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

TEST_F(CudaFaultTest, AFailedLaunchFailsItsPhasesOnly) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("fail-launch=2"));
  PhasesFixture phases;
  EXPECT_EQ(Run(phases).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(backend_->up());
  EXPECT_TRUE(Run(phases).ok());
  phases.ExpectExact();
  EXPECT_TRUE(Run(fixture_).ok());
  fixture_.ExpectExact();
}

TEST_F(CudaFaultTest, APoisonedContextLosesPhases) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=2"));
  PhasesFixture phases;
  EXPECT_EQ(Run(phases).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(backend_->up());
  EXPECT_EQ(Run(phases).code(), absl::StatusCode::kUnavailable);
}

// The first phase is done, the second one hangs.
TEST_F(CudaFaultTest, HangingPhasesComeBackWhenMarkedDown) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("hang-launch=2", 1));
  auto phases = std::make_unique<PhasesFixture>();
  std::future<std::unique_ptr<Batch>> hanging = Start(*phases);
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  backend_->MarkDown("a batch outlived batch_us_max");
  std::unique_ptr<Batch> batch = hanging.get();
  EXPECT_EQ(batch->status.code(), absl::StatusCode::kUnavailable);
  batch.reset();
  phases.reset();  // the lane reads neither the payload nor the batch from now on
}

TEST_F(CudaFaultTest, APoisonedContextTakesTheBackendDown) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=2"));
  EXPECT_TRUE(Run(fixture_).ok());
  fixture_.ExpectExact();
  const absl::Status lost = Run(fixture_);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_FALSE(backend_->up());
  for (int i = 0; i < 5; ++i) {
    const absl::Status after = Run(i % 2 == 0 ? fixture_ : large_);
    EXPECT_EQ(after.code(), absl::StatusCode::kUnavailable) << after;
    EXPECT_TRUE(absl::StrContains(after.message(), "cuda:0 is down")) << after;
  }
  backend_.reset();  // frees nothing, and comes back
}

TEST_F(CudaFaultTest, APoisonedContextWhileEveryLaneIsBusy) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=20", 4));
  std::deque<BatchFixture> fixtures(4);
  for (BatchFixture& fixture : fixtures) {
    fixture.Add(MakePayload(Distribution::kLetters, 3 << 20, 4), 65536);
  }
  int failures = 0;
  while (backend_->up()) {
    std::vector<std::future<std::unique_ptr<Batch>>> running;
    for (BatchFixture& fixture : fixtures) running.push_back(Start(fixture));
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
}

// The watchdog's case: the device never answers. The batch comes back all the same.
TEST_F(CudaFaultTest, AHangingBatchComesBackWhenMarkedDown) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("hang-launch=2"));
  EXPECT_TRUE(Run(fixture_).ok());
  // One of these two hangs, whichever is launched first; the other lane goes on meanwhile.
  std::future<std::unique_ptr<Batch>> hanging = Start(fixture_), other = Start(large_);
  while (other.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (hanging.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) {
      std::swap(hanging, other);
    }
  }
  EXPECT_TRUE(other.get()->status.ok());
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  backend_->MarkDown("a batch outlived batch_us_max");
  const absl::Status status = hanging.get()->status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "outlived")) << status;
  EXPECT_EQ(Run(fixture_).code(), absl::StatusCode::kUnavailable);
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

}  // namespace
}  // namespace histogram::testing
