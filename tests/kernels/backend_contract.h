// What every backend promises, as a test suite. A test of a backend includes this header and
// instantiates the suite with ways to make that backend:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, BackendContractTest, ::testing::Values(BackendMaker{...}),
//                            BackendMakerName);
//
// A maker that answers nullptr (no such device here) skips its tests.
#ifndef HISTOGRAM_TESTS_KERNELS_BACKEND_CONTRACT_H_
#define HISTOGRAM_TESTS_KERNELS_BACKEND_CONTRACT_H_

#include <histogram/typed.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/mutex.h"
#include "kernels/payload.h"
#include "kernels/reference.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {

struct BackendMaker {
  std::string name;  // letters, digits and underscores
  std::function<std::unique_ptr<Backend>()> make;
};

inline void PrintTo(const BackendMaker& maker, std::ostream* out) { *out << maker.name; }

inline std::string BackendMakerName(const ::testing::TestParamInfo<BackendMaker>& test) {
  return test.param.name;
}

// A payload that begins at an odd address, in fragments of at most `fragment_bytes`.
struct CutPayload {
  CutPayload(std::span<const std::byte> samples, size_t fragment_bytes) : bytes(1) {
    bytes.insert(bytes.end(), samples.begin(), samples.end());
    for (size_t at = 0; at < samples.size(); at += fragment_bytes) {
      fragments.push_back(
          FragmentOf(all().subspan(at, std::min(fragment_bytes, samples.size() - at))));
    }
  }
  std::span<const std::byte> all() const { return std::span(bytes).subspan(1); }

  std::vector<std::byte> bytes;  // the payload from the second one on
  std::vector<Fragment> fragments;
  std::vector<uint64_t> counts = {};
};

// Payloads under one plan, their fragments, and where their counts go. Add first, then MakeBatch.
class BatchFixture {
 public:
  explicit BatchFixture(Plan plan = Plan()) : plan_(std::move(plan)) {}

  void Add(const std::vector<uint8_t>& bytes, size_t fragment_bytes = SIZE_MAX) {
    payloads_.emplace_back(std::as_bytes(std::span(bytes)), fragment_bytes);
  }
  // `count` mixed samples, which fragments may cut.
  void Add(size_t count, std::mt19937_64& random, size_t fragment_bytes = SIZE_MAX) {
    payloads_.emplace_back(
        MixedSamples(plan_.type(), plan_.binning().ComputeEdges(), count, random), fragment_bytes);
  }

  std::unique_ptr<Batch> MakeBatch() {
    auto batch = std::make_unique<Batch>();
    batch->status = absl::UnknownError("not executed");
    for (CutPayload& payload : payloads_) {
      // To be overwritten, not added to.
      payload.counts.assign(plan_.counter_count(), 0xdeadbeefdeadbeef);
      batch->items.push_back({.fragments = payload.fragments,
                              .bytes = payload.all().size(),
                              .plan = plan_,
                              .counts = absl::MakeSpan(payload.counts)});
    }
    batch->bytes = bytes();
    return batch;
  }

  void ExpectExact() const {
    for (size_t i = 0; i < payloads_.size(); ++i) {
      const CutPayload& payload = payloads_[i];
      ASSERT_EQ(payload.counts, ReferenceCounters(payload.fragments, plan_))
          << "payload " << i << " of " << payload.all().size() << " bytes of "
          << NameOf(plan_.type()) << ", " << plan_.bin_count() << " bins, " << plan_.family();
    }
  }

  size_t size() const { return payloads_.size(); }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const CutPayload& payload : payloads_) sum += payload.all().size();
    return sum;
  }

 private:
  const Plan plan_;
  std::deque<CutPayload> payloads_;  // payloads stay where they are
};

// Submits; the batch is there when it is done.
inline std::future<std::unique_ptr<Batch>> Start(Backend& backend, std::unique_ptr<Batch> batch) {
  auto promise = std::make_shared<std::promise<std::unique_ptr<Batch>>>();
  backend.Submit(std::move(batch),
                 [promise](std::unique_ptr<Batch> done) { promise->set_value(std::move(done)); });
  return promise->get_future();
}
inline std::unique_ptr<Batch> Execute(Backend& backend, std::unique_ptr<Batch> batch) {
  return Start(backend, std::move(batch)).get();
}

// A backend that is to count with `kernel` only does so, whatever a lane gets.
inline void ExpectCountsWith(const std::string& kernel, Backend& backend) {
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kLetters, 100001), 3000);
  fixture.Add(MakePayload(Distribution::kUniform, 17));
  const std::unique_ptr<Batch> batch = Execute(backend, fixture.MakeBatch());
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  EXPECT_EQ(batch->report.kernel, kernel);
  ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
}

class BackendContractTest : public ::testing::TestWithParam<BackendMaker> {
 protected:
  void SetUp() override {
    backend_ = GetParam().make();
    if (backend_ == nullptr) GTEST_SKIP() << GetParam().name << " is not there on this machine";
  }

  std::unique_ptr<Batch> Run(std::unique_ptr<Batch> batch) {
    return Execute(*backend_, std::move(batch));
  }

  void ExpectOwnKernel(const std::string& name) const {
    const std::vector<KernelInfo> kernels = backend_->kernels();
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [&name](const KernelInfo& kernel) {
      return kernel.name == name;
    })) << name;
  }

  size_t LaneBytes(size_t wanted) const {
    return static_cast<size_t>(std::min<uint64_t>(wanted, backend_->info().lane_bytes));
  }
  size_t LanePayloads(size_t wanted) const {
    return std::min<size_t>(wanted, backend_->info().lane_payloads);
  }

  std::unique_ptr<Backend> backend_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendContractTest);

TEST_P(BackendContractTest, DescribesItself) {
  const BackendInfo& info = backend_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.device.empty());
  EXPECT_GE(info.lanes, 1U);
  EXPECT_GE(info.lane_bytes, 1U);
  EXPECT_GE(info.lane_payloads, 1U);
  ASSERT_FALSE(backend_->kernels().empty());
  const std::string family = info.name.substr(0, info.name.find(':'));
  for (const KernelInfo& kernel : backend_->kernels()) {
    EXPECT_FALSE(kernel.name.empty());
    EXPECT_FALSE(kernel.summary.empty());
    EXPECT_EQ(kernel.backend, family);
  }
  EXPECT_TRUE(backend_->up());
}

TEST_P(BackendContractTest, ChoicesNameItsOwnKernels) {
  for (const KernelChoice& choice : backend_->choices()) {
    EXPECT_EQ(choice.backend, backend_->info().name);
    EXPECT_GE(choice.payload_bytes_max, 1U);
    ExpectOwnKernel(choice.kernel);
  }
}

TEST_P(BackendContractTest, CountsEveryDistributionExactly) {
  for (const Distribution distribution : kDistributions) {
    for (const size_t wanted : {size_t{1}, size_t{4097}, size_t{1} << 20, (size_t{3} << 20) + 5}) {
      const size_t size = LaneBytes(wanted);
      SCOPED_TRACE(Name(distribution) + ", " + std::to_string(size) + " bytes");
      BatchFixture fixture;
      fixture.Add(MakePayload(distribution, size), 60000);
      const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
      ASSERT_TRUE(batch->status.ok()) << batch->status;
      ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
    }
  }
}

TEST_P(BackendContractTest, CountsManyPayloadsOfMixedSizes) {
  Random random(5);
  for (int round = 0; round < 10; ++round) {
    BatchFixture fixture;
    size_t room = LaneBytes(size_t{4} << 20);
    const size_t payloads = LanePayloads(1 + random.Below(300));
    for (size_t i = 0; i < payloads; ++i) {
      const size_t size =
          std::min<size_t>(room, random.Below(uint64_t{1} << random.Below(round == 0 ? 5 : 18)));
      fixture.Add(
          MakePayload(kDistributions[random.Below(kDistributions.size())], size, random.Next()),
          1 + random.Below(20000));
      room -= size;
    }
    const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    EXPECT_EQ(batch->report.payloads, payloads);
    ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
  }
}

TEST_P(BackendContractTest, CountsNothing) {
  BatchFixture fixture;
  fixture.Add({});
  fixture.Add({});
  const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  fixture.ExpectExact();
}

TEST_P(BackendContractTest, TakesAsManyPayloadsAsItSays) {
  const size_t payloads = LanePayloads(5000);
  BatchFixture fixture;
  for (size_t i = 0; i < payloads; ++i) fixture.Add({static_cast<uint8_t>(i)});
  const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  fixture.ExpectExact();
}

TEST_P(BackendContractTest, ReportsWhatRan) {
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, LaneBytes(1 << 20)));
  const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  EXPECT_EQ(batch->report.backend, backend_->info().name);
  EXPECT_EQ(batch->report.payloads, 1U);
  EXPECT_GT(batch->report.kernel_ns, 0U);
  ExpectOwnKernel(batch->report.kernel);
}

TEST_P(BackendContractTest, HandsBackTheSameBatchFromAnotherThread) {
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kGauss, 5000));
  std::unique_ptr<Batch> batch = fixture.MakeBatch();
  const Batch* const sent = batch.get();
  std::promise<std::pair<Batch*, std::thread::id>> promise;
  std::atomic<int> calls{0};
  std::unique_ptr<Batch> received;
  backend_->Submit(std::move(batch), [&](std::unique_ptr<Batch> done) {
    received = std::move(done);
    calls.fetch_add(1);
    promise.set_value({received.get(), std::this_thread::get_id()});
  });
  const auto [back, thread] = promise.get_future().get();
  EXPECT_EQ(back, sent);
  EXPECT_NE(thread, std::this_thread::get_id());
  backend_.reset();  // no call can come after this
  EXPECT_EQ(calls.load(), 1);
}

TEST_P(BackendContractTest, ExecutesInlineWhereItSaysSo) {
  if (backend_->info().kind != BackendKind::kCpu) GTEST_SKIP() << "this backend does not";
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kSorted, 70000), 100);
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  backend_->Execute(*batch);
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  fixture.ExpectExact();
}

// As many threads as lanes, each with a lane of its own all the time; the next batch is submitted
// from within done.
TEST_P(BackendContractTest, AllLanesAtOnce) {
  constexpr int kBatchesPerLane = 30;
  const uint32_t lanes = backend_->info().lanes;
  std::vector<std::promise<void>> finished(lanes);
  std::deque<BatchFixture> fixtures(lanes);
  std::vector<int> left(lanes, kBatchesPerLane);
  std::atomic<int> failures{0};
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (int i = 0; i < 5; ++i) {
      fixtures[lane].Add(MakePayload(kDistributions[(lane + i) % 8], LaneBytes(20000) / 5, lane));
    }
  }
  std::function<void(uint32_t)> submit = [&](uint32_t lane) {
    std::unique_ptr<Batch> batch = fixtures[lane].MakeBatch();
    backend_->Submit(std::move(batch), [&, lane](std::unique_ptr<Batch> done) {
      if (!done->status.ok()) failures.fetch_add(1);
      if (--left[lane] > 0) {
        submit(lane);
      } else {
        finished[lane].set_value();
      }
    });
  };
  for (uint32_t lane = 0; lane < lanes; ++lane) submit(lane);
  for (std::promise<void>& promise : finished) promise.get_future().get();
  EXPECT_EQ(failures.load(), 0);
  for (const BatchFixture& fixture : fixtures) ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
}

TEST_P(BackendContractTest, DestructionWaitsForBatches) {
  const uint32_t lanes = backend_->info().lanes;
  std::deque<BatchFixture> fixtures(lanes);
  std::atomic<uint32_t> done_ok{0};
  for (BatchFixture& fixture : fixtures) {
    fixture.Add(MakePayload(Distribution::kUniform, LaneBytes(1 << 20)));
    backend_->Submit(fixture.MakeBatch(), [&done_ok](std::unique_ptr<Batch> batch) {
      if (batch->status.ok()) done_ok.fetch_add(1);
    });
  }
  backend_.reset();
  EXPECT_EQ(done_ok.load(), lanes);
  for (const BatchFixture& fixture : fixtures) ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
}

TEST_P(BackendContractTest, DownMeansDown) {
  backend_->MarkDown("a test says so");
  backend_->MarkDown("and again");
  EXPECT_FALSE(backend_->up());
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 100));
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
    EXPECT_EQ(batch->status.code(), absl::StatusCode::kUnavailable) << batch->status;
    EXPECT_TRUE(absl::StrContains(batch->status.message(), "a test says so")) << batch->status;
  }
  EXPECT_FALSE(backend_->up());
}

// Marking down may come at any moment, from any thread: each batch is either exact or UNAVAILABLE.
TEST_P(BackendContractTest, MayGoDownUnderLoad) {
  const uint32_t lanes = backend_->info().lanes;
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  callers.reserve(lanes);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    callers.emplace_back([this, lane, &stop] {
      BatchFixture fixture;
      fixture.Add(MakePayload(Distribution::kLetters, 3000, lane));
      while (!stop.load()) {
        const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
        if (batch->status.ok()) {
          ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
        } else {
          EXPECT_EQ(batch->status.code(), absl::StatusCode::kUnavailable);
          stop.store(true);
        }
      }
    });
  }
  std::thread([this] { backend_->MarkDown("under load"); }).join();
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(backend_->up());
}

TEST_P(BackendContractTest, EstimatesGrowWithTheWork) {
  uint64_t previous = 0;
  for (uint64_t bytes = 1024; bytes <= LaneBytes(size_t{1} << 28); bytes *= 4) {
    const uint64_t ns = backend_->EstimateNs({.bin_count = kByteValues,
                                              .payload_bytes = bytes,
                                              .payload_count = 1,
                                              .batch_bytes = bytes});
    EXPECT_GT(ns, 0U);
    EXPECT_GE(ns, previous) << bytes;
    previous = ns;
  }
  const auto of_count = [this](uint32_t count) {
    return backend_->EstimateNs({.bin_count = kByteValues,
                                 .payload_bytes = 1024,
                                 .payload_count = count,
                                 .batch_bytes = uint64_t{1024} * count});
  };
  EXPECT_GE(of_count(100), of_count(1));
  // Degenerate shapes are answered too.
  backend_->EstimateNs({.payload_bytes = 0, .payload_count = 0, .batch_bytes = 0});
  backend_->EstimateNs({.payload_bytes = uint64_t{1} << 50, .batch_bytes = uint64_t{1} << 50});
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_BACKEND_CONTRACT_H_
