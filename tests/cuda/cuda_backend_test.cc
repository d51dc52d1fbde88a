// The GPU backend: the contract of all backends, and what is its own.
#include <sys/mman.h>

#include <climits>

#include "kernels/cuda/backend/cuda_backends.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/backend_contract.h"
#include "tests/kernels/phases_backend_contract.h"
#include "tests/kernels/typed_backend_contract.h"

namespace histogram::testing {
namespace {

// The first GPU's backend; null, saying why, without one.
std::unique_ptr<Backend> Make(const BackendOptions& options) {
  std::vector<std::string> notes;
  auto backends = MakeCudaBackends(options, notes);
  EXPECT_TRUE(backends.ok()) << backends.status();
  if (!backends.ok() || backends->empty()) {
    for (const std::string& note : notes) ::testing::Test::RecordProperty("note", note);
    return nullptr;
  }
  return std::move(backends->front());
}

BackendOptions Options(uint32_t lanes, uint64_t lane_bytes, const std::string& force_kernel = "") {
  BackendOptions options;
  options.cuda_lanes = lanes;
  options.cuda_lane_bytes = lane_bytes;
  options.force_kernel = force_kernel;
  options.tune = false;
  return options;
}

// Moves each batch's fragments into receive memory, with gaps of odd sizes, before its backend gets
// it, but for every `left` th. The fragments of all batches that execute at one time fit.
class ReceivingBackend final : public Backend {
 public:
  static std::unique_ptr<Backend> Make(BackendOptions options, int left = INT_MAX) {
    constexpr size_t kBytes = size_t{160} << 20;
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    options.receive_memory = {static_cast<uint8_t*>(memory), kBytes};
    std::unique_ptr<Backend> inner = testing::Make(options);
    if (inner == nullptr) return nullptr;
    EXPECT_TRUE(inner->info().reads_receive_memory);
    return std::make_unique<ReceivingBackend>(std::move(inner), options.receive_memory, left);
  }
  ReceivingBackend(std::unique_ptr<Backend> inner, std::span<uint8_t> memory, int left)
      : inner_(std::move(inner)), memory_(memory), left_(left) {}

  const BackendInfo& info() const override { return inner_->info(); }
  std::vector<KernelInfo> kernels() const override { return inner_->kernels(); }
  std::vector<KernelChoice> choices() const override { return inner_->choices(); }
  bool up() const override { return inner_->up(); }
  void MarkDown(const std::string& why) override { inner_->MarkDown(why); }
  uint64_t EstimateNs(const Workload& workload) const override {
    return inner_->EstimateNs(workload);
  }
  void Execute(Batch& batch) override { inner_->Execute(batch); }
  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    auto moved = std::make_shared<std::deque<std::vector<Fragment>>>();
    for (BatchItem& item : batch->items) {
      std::vector<Fragment>& fragments = moved->emplace_back();
      for (const Fragment& fragment : item.fragments) fragments.push_back(Move(fragment));
      item.fragments = fragments;
    }
    inner_->Submit(std::move(batch), [moved, done = std::move(done)](auto executed) mutable {
      done(std::move(executed));
    });
  }

 private:
  Fragment Move(const Fragment& fragment) {
    MutexLock lock(mutex_);
    if (++moved_ % left_ == 0) return fragment;
    if (at_ + fragment.size() > memory_.size()) at_ = 0;
    uint8_t* const to = memory_.data() + at_;
    std::copy(fragment.begin(), fragment.end(), to);
    at_ += fragment.size() + 9;
    return {to, fragment.size()};
  }

  const std::unique_ptr<Backend> inner_;
  const std::span<uint8_t> memory_;
  const int left_;
  Mutex mutex_;
  int moved_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t at_ ABSL_GUARDED_BY(mutex_) = 5;
};

INSTANTIATE_TEST_SUITE_P(
    Cuda, BackendContractTest,
    ::testing::Values(
        BackendMaker{"one_lane", [] { return Make(Options(1, 4 << 20)); }},
        BackendMaker{"four_lanes", [] { return Make(Options(4, 16 << 20)); }},
        BackendMaker{"small_lanes", [] { return Make(Options(2, 1 << 16)); }},
        BackendMaker{"receive_memory", [] { return ReceivingBackend::Make(Options(4, 16 << 20)); }},
        BackendMaker{"no_spinning",
                     [] {
                       BackendOptions options = Options(2, 8 << 20);
                       options.spin_us_max = 0;
                       return Make(options);
                     }},
        BackendMaker{"forced_shared", [] { return Make(Options(2, 4 << 20, "shared_private")); }},
        BackendMaker{"forced_cub", [] { return Make(Options(2, 4 << 20, "cub_histogram")); }}),
    BackendMakerName);

INSTANTIATE_TEST_SUITE_P(
    Cuda, TypedBackendContractTest,
    ::testing::Values(BackendMaker{"four_lanes", [] { return Make(Options(4, 16 << 20)); }},
                      BackendMaker{"small_lanes", [] { return Make(Options(1, 1 << 16)); }},
                      BackendMaker{"receive_memory",
                                   [] { return ReceivingBackend::Make(Options(4, 16 << 20)); }},
                      BackendMaker{"mostly_receive_memory",
                                   [] { return ReceivingBackend::Make(Options(4, 16 << 20), 5); }},
                      BackendMaker{"tuned",
                                   [] {
                                     BackendOptions options = Options(1, 4 << 20);
                                     options.tune = true;
                                     return Make(options);
                                   }}),
    BackendMakerName);

INSTANTIATE_TEST_SUITE_P(
    Cuda, PhasesBackendContractTest,
    ::testing::Values(BackendMaker{"large_lanes", [] { return Make(Options(2, 16 << 20)); }},
                      BackendMaker{"small_lanes", [] { return Make(Options(1, 1 << 16)); }}),
    BackendMakerName);

// A step counts 4,060 rows of 256 bins, so the last of them has one channel.
TEST_P(PhasesBackendContractTest, ALoneChannelOfManyIsNoRunOfBytes) {
  constexpr uint32_t kChannels = 4 * 4060 + 1;
  for (const size_t pixels : {1024, 1000}) {
    ExpectExecuted(Samples(SampleType::kU8, pixels * kChannels), PlanOf(SampleType::kU8, 256),
                   Windows(pixels, 0, kChannels), 1 << 20);
  }
}

class CudaBackendTest : public ::testing::Test {
 protected:
  void SetUp() override { HISTOGRAM_SKIP_WITHOUT_GPU(); }
  // The backend that the test uses, from now on.
  Backend& Use(const BackendOptions& options) { return Use(Make(options)); }
  Backend& Use(std::unique_ptr<Backend> backend) {
    EXPECT_NE(backend, nullptr);
    backend_ = std::move(backend);
    return *backend_;
  }
  BatchReport ExpectCounted(BatchFixture& fixture) {
    const std::unique_ptr<Batch> batch = Execute(*backend_, fixture.MakeBatch());
    EXPECT_TRUE(batch->status.ok()) << batch->status;
    fixture.ExpectExact();
    return batch->report;
  }

  std::unique_ptr<Backend> backend_;
  std::mt19937_64 random_{20261124};
};

TEST_F(CudaBackendTest, WhatIsFetchedIsEstimatedWithoutItsGather) {
  BackendOptions options = Options(1, 16 << 20);
  options.tune = true;
  const Workload large = {.payload_bytes = 16 << 20, .payload_count = 1, .batch_bytes = 16 << 20};
  const uint64_t gathered = Make(options)->EstimateNs(large);
  const uint64_t fetched = ReceivingBackend::Make(options)->EstimateNs(large);
  EXPECT_LT(fetched + 100'000, gathered) << "a core copies 16 MiB in some 1,500 us";
}

TEST_F(CudaBackendTest, EachKernelCountsWhereItIsForced) {
  for (const KernelInfo& kernel : ListCudaKernels()) {
    SCOPED_TRACE(kernel.name);
    const std::unique_ptr<Backend> backend = Make(Options(1, 1 << 20, kernel.name));
    ASSERT_NE(backend, nullptr);
    ExpectCountsWith(kernel.name, *backend);
  }
}

TEST_F(CudaBackendTest, SaysWhatItAllocated) {
  Backend& backend = Use(Options(3, 4 << 20));
  const BackendInfo& info = backend.info();
  EXPECT_EQ(info.name, "cuda:0");
  EXPECT_EQ(info.lanes, 3U);
  EXPECT_EQ(info.lane_bytes, uint64_t{4} << 20);
  EXPECT_GE(info.pinned_bytes, 3 * info.lane_bytes);
  EXPECT_GE(info.device_bytes, 3 * info.lane_bytes);
  EXPECT_EQ(info.uuid.substr(0, 4), "GPU-");
  EXPECT_FALSE(info.driver.empty());
}

// Everything the lane does with sizes changes at these: in place or copied, one portion or several.
TEST_F(CudaBackendTest, SizesAroundEveryBoundary) {
  Use(Options(1, (16 << 20) + 3));
  for (const uint64_t boundary :
       {uint64_t{1} << 12, uint64_t{1} << 20, uint64_t{2} << 20, uint64_t{16} << 20}) {
    for (const int64_t delta : {-17, -1, 0, 1, 3}) {
      BatchFixture fixture;
      fixture.Add(MakePayload(Distribution::kGauss, boundary + delta, boundary), 70001);
      EXPECT_EQ(ExpectCounted(fixture).transfer_ns == 0, boundary + delta <= uint64_t{1} << 20);
    }
  }
}

TEST_F(CudaBackendTest, LargeAndSmallPayloadsInOneBatch) {
  Use(Options(1, 16 << 20));
  BatchFixture fixture;
  for (int i = 0; i < 200; ++i) fixture.Add(MakePayload(Distribution::kLetters, 100 + i, i));
  fixture.Add(MakePayload(Distribution::kUniform, (5 << 20) + 11, 1), 1000);
  for (int i = 0; i < 200; ++i) fixture.Add(MakePayload(Distribution::kSorted, 3000 + i, i));
  fixture.Add(MakePayload(Distribution::kConstant, 3 << 20, 2));
  ExpectCounted(fixture);
}

// Frames of 16 KiB whose headers lie between them, pieces of some bytes, samples that pieces cut.
TEST_F(CudaBackendTest, ReceiveMemoryIsReadInPlace) {
  Use(ReceivingBackend::Make(Options(1, 16 << 20)));
  for (const size_t fragment_bytes : {16384, 4099, 65536, 1 << 24}) {
    SCOPED_TRACE(fragment_bytes);
    BatchFixture bytes;
    BatchFixture typed(MakePlan(Binning::Even(2048, -4.0, 4.0), SampleType::kF32));
    bytes.Add(MakePayload(Distribution::kGauss, (5 << 20) + 3, 1), fragment_bytes);
    bytes.Add(MakePayload(Distribution::kUniform, 70001, 2), fragment_bytes);
    bytes.Add({});
    typed.Add((5 << 18) + 1, random_, fragment_bytes);
    typed.Add(70001, random_, fragment_bytes);
    for (const BatchReport& report : {ExpectCounted(bytes), ExpectCounted(typed)}) {
      EXPECT_EQ(report.gather_ns, 0U);
      EXPECT_GT(report.transfer_ns, 0U);
    }
  }
  // More pieces than a lane lists: gathered.
  BatchFixture tiny;
  tiny.Add(MakePayload(Distribution::kGauss, 1 << 20, 3), 7);
  EXPECT_GT(ExpectCounted(tiny).gather_ns, 0U);
}

// A portion ends within a payload, and payloads end within a portion.
TEST_F(CudaBackendTest, TypedSizesAroundEveryBoundary) {
  Backend& backend = Use(Options(1, 16 << 20));
  for (const SampleType type : {SampleType::kU16, SampleType::kF32, SampleType::kI64}) {
    for (const uint64_t boundary :
         {uint64_t{512} << 10, uint64_t{1} << 20, uint64_t{2} << 20, uint64_t{16} << 20}) {
      for (const int64_t samples : {-1, 0, 1}) {
        const uint64_t count = boundary / SampleBytes(type) + samples;
        if (count * SampleBytes(type) > backend.info().lane_bytes) continue;
        BatchFixture fixture(MakePlan(Binning::Even(2048, -4.0, 4.0), type));
        fixture.Add(count, random_, 70001);
        ExpectCounted(fixture);
      }
    }
  }
}

TEST_F(CudaBackendTest, LargeAndSmallTypedPayloadsInOneBatch) {
  Use(Options(1, 16 << 20));
  BatchFixture fixture(MakePlan(Binning::Even(1000, -0.1, 0.8), SampleType::kF32));
  for (int i = 0; i < 50; ++i) fixture.Add(100 + i, random_);
  fixture.Add((5 << 18) + 11, random_, 1000);
  for (int i = 0; i < 50; ++i) fixture.Add(3000 + i, random_);
  fixture.Add(3 << 18, random_);
  const BatchReport report = ExpectCounted(fixture);
  EXPECT_GT(report.gather_ns, 0U);
  EXPECT_GT(report.transfer_ns, 0U);
}

TEST_F(CudaBackendTest, TypedBatchesThatTheLaneDoesNotHoldAreRefused) {
  Backend& backend = Use(Options(1, 1 << 20));
  const uint32_t bins = 65536;
  BatchFixture many(MakePlan(Binning::Even(bins, 0.0, 1.0), SampleType::kF32));
  for (uint64_t i = 0; i <= backend.info().lane_counters / (bins + 3); ++i) many.Add(10, random_);
  EXPECT_EQ(Execute(backend, many.MakeBatch())->status.code(), absl::StatusCode::kInvalidArgument);
  // Items whose plans differ.
  BatchFixture one(MakePlan(Binning::Even(10, 0.0, 1.0), SampleType::kF32));
  BatchFixture other(MakePlan(Binning::Even(10, 0.0, 1.1), SampleType::kF32));
  one.Add(10, random_);
  other.Add(10, random_);
  std::unique_ptr<Batch> mixed = one.MakeBatch();
  std::unique_ptr<Batch> rest = other.MakeBatch();
  mixed->items.push_back(rest->items.front());
  mixed->bytes += rest->bytes;
  EXPECT_EQ(Execute(backend, std::move(mixed))->status.code(), absl::StatusCode::kInvalidArgument);
  ExpectCounted(one);
  EXPECT_TRUE(backend.up());
}

TEST_F(CudaBackendTest, SaysWhatTypedSamplesTook) {
  BackendOptions options = Options(1, 16 << 20);
  options.tune = true;
  Backend& backend = Use(options);
  uint64_t previous = 0;
  for (const KernelChoice& choice : backend.choices()) {
    if (choice.sample_type != SampleType::kF32) continue;
    EXPECT_GT(choice.cost_ns, previous) << choice.payload_bytes_max;
    EXPECT_GT(choice.gigabytes_per_second, 0);
    previous = choice.cost_ns;
  }
  EXPECT_GT(previous, 0U);
}

TEST_F(CudaBackendTest, BatchesBeyondTheLaneAreRefused) {
  Backend& backend = Use(Options(1, 1 << 20));
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, (1 << 20) + 1));
  const std::unique_ptr<Batch> batch = Execute(backend, fixture.MakeBatch());
  EXPECT_EQ(batch->status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(backend.up());
}

TEST_F(CudaBackendTest, DeadlinesThatPassedAreNotWorkedOn) {
  Backend& backend = Use(Options(1, 1 << 20));
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 1000));
  std::unique_ptr<Batch> batch = fixture.MakeBatch();
  batch->deadline_ns = 1;
  batch = Execute(backend, std::move(batch));
  EXPECT_EQ(batch->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(backend.up());
}

}  // namespace
}  // namespace histogram::testing
