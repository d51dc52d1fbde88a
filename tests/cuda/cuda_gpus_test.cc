// Several GPUs in one process: each works by itself, and one that hangs leaves the others alone. A
// poisoned context is the loss of all. It spoils the process: run each test in a process of its
// own, as ctest does.
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/backend_contract.h"

namespace histogram::testing {
namespace {

class CudaGpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> notes;
    const size_t gpus = cuda::FindDevices(cuda::FaultPlan(), notes).size();
    if (gpus < 2) GTEST_SKIP() << "needs two GPUs, and " << gpus << " can be used";
    fixture_.Add(MakePayload(Distribution::kGauss, 100000), 999);
    large_.Add(MakePayload(Distribution::kUniform, 9 << 20), 99999);
  }

  void MakeWith(const std::string& faults) {
    BackendOptions options;
    options.cuda_lanes = 2;
    options.tune = false;
    options.fault_injection = faults;
    std::vector<std::string> notes;
    auto backends = MakeCudaBackends(options, notes);
    ASSERT_TRUE(backends.ok()) << backends.status();
    backends_ = *std::move(backends);
    ASSERT_GE(backends_.size(), 2U) << absl::StrJoin(notes, "; ");
  }

  static std::future<std::unique_ptr<Batch>> Start(Backend& backend, BatchFixture& fixture) {
    auto promise = std::make_shared<std::promise<std::unique_ptr<Batch>>>();
    backend.Submit(fixture.MakeBatch(),
                   [promise](std::unique_ptr<Batch> done) { promise->set_value(std::move(done)); });
    return promise->get_future();
  }
  static absl::Status Run(Backend& backend, BatchFixture& fixture) {
    return Start(backend, fixture).get()->status;
  }

  BatchFixture fixture_, large_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_F(CudaGpusTest, EachIsABackendOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(MakeWith(""));
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
  ASSERT_NO_FATAL_FAILURE(MakeWith(""));
  std::deque<BatchFixture> fixtures(2 * backends_.size());
  for (size_t i = 0; i < fixtures.size(); ++i) {
    const Distribution distribution = i % 2 == 0 ? Distribution::kUniform : Distribution::kLetters;
    fixtures[i].Add(MakePayload(distribution, (3 << 20) + i, i), 65536);
    for (int k = 0; k < 50; ++k) fixtures[i].Add(MakePayload(distribution, 1000 + k, k));
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<std::future<std::unique_ptr<Batch>>> running;
    for (size_t i = 0; i < fixtures.size(); ++i) {
      running.push_back(Start(*backends_[i / 2], fixtures[i]));
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
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=1"));
  EXPECT_EQ(Run(*backends_[1], large_).code(), absl::StatusCode::kUnavailable);
  for (const auto& backend : backends_) {
    EXPECT_FALSE(backend->up()) << backend->info().name;
    const absl::Status after = Run(*backend, fixture_);
    EXPECT_EQ(after.code(), absl::StatusCode::kUnavailable) << after;
    EXPECT_TRUE(absl::StrContains(after.message(), backend->info().name + " is down")) << after;
    const char* const why = backend == backends_[1] ? "cudaError" : "since cuda:1 was lost";
    EXPECT_TRUE(absl::StrContains(after.message(), why)) << after;
  }
  backends_.clear();  // frees nothing, and comes back
}

// Batches under way on all of them: each comes back, exact or UNAVAILABLE.
TEST_F(CudaGpusTest, APoisonedContextWhileAllAreBusy) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("poison-launch=40"));
  std::deque<BatchFixture> fixtures(2 * backends_.size());
  for (size_t i = 0; i < fixtures.size(); ++i) {
    fixtures[i].Add(MakePayload(Distribution::kGauss, (3 << 20) + i, i), 65536);
  }
  int failures = 0;
  while (backends_[0]->up() || backends_[1]->up()) {
    std::vector<std::future<std::unique_ptr<Batch>>> running;
    for (size_t i = 0; i < fixtures.size(); ++i) {
      running.push_back(Start(*backends_[i / 2], fixtures[i]));
    }
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
  backends_.clear();
}

TEST_F(CudaGpusTest, AHangOfOneHoldsUpNoOther) {
  ASSERT_NO_FATAL_FAILURE(MakeWith("hang-launch=1"));
  std::future<std::unique_ptr<Batch>> hanging = Start(*backends_[0], large_);
  EXPECT_EQ(hanging.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Run(*backends_[1], fixture_).ok()) << i;
    ASSERT_NO_FATAL_FAILURE(fixture_.ExpectExact());
  }
  backends_[0]->MarkDown("a batch outlived batch_us_max");
  EXPECT_EQ(hanging.get()->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Run(*backends_[1], large_).ok());
  large_.ExpectExact();
}

}  // namespace
}  // namespace histogram::testing
