// What of the GPU backend needs no GPU: units of work, how a lane cuts batches and copies them,
// fault plans, error classes, the registry.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/backend/cuda_backends.h"
#include "kernels/cuda/backend/device_check.h"
#include "kernels/cuda/backend/lane/lane_plan.h"
#include "kernels/cuda/backend/lane/streaming_copy.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/fault_plan.h"
#include "kernels/cuda/kernels/extent.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/error.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {
namespace {

TEST(DeviceCheckTest, MachineCodeRunsOnItsMajorVersionFromItsMinorOneOn) {
  const auto release = [](int capability) {
    return cuda::RunsMachineCode(capability, {75, 80, 90, 100, 120});
  };
  for (int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121}) {
    EXPECT_TRUE(release(capability)) << capability;
  }
  for (int capability : {70, 72, 110, 130}) EXPECT_FALSE(release(capability)) << capability;
  EXPECT_FALSE(cuda::RunsMachineCode(100, {103}));
  EXPECT_TRUE(cuda::RunsMachineCode(89, {}));
}

TEST(WorkTest, UnitsCoverEveryByte) {
  EXPECT_EQ(cuda::RoundsOf(0), 0U);
  EXPECT_EQ(cuda::RoundsOf(1), 1U);
  EXPECT_EQ(cuda::RoundsOf(cuda::kRoundBytes), 1U);
  EXPECT_EQ(cuda::RoundsOf(cuda::kRoundBytes + 1), 2U);
  EXPECT_EQ(cuda::RoundsOf(0xFFFFFFFFU), 1U << 22);
}

TEST(WorkTest, StartsAreTheRunningSum) {
  std::vector<cuda::PayloadDescriptor> payloads;
  for (const uint32_t bytes : {0U, 1U, 512U, 513U, 1U << 20}) payloads.push_back({0, bytes, 77});
  constexpr uint32_t kOverhead = 12;
  const uint32_t units = cuda::AssignUnits(absl::MakeSpan(payloads), kOverhead);
  uint32_t expected = 0;
  for (const cuda::PayloadDescriptor& payload : payloads) {
    EXPECT_EQ(payload.start, expected);
    expected += cuda::RoundsOf(payload.bytes) + kOverhead;
  }
  EXPECT_EQ(units, expected);
  EXPECT_EQ(cuda::AssignUnits({}, kOverhead), 0U);
}

struct Cut {
  std::vector<cuda::Piece> pieces;
  std::vector<uint32_t> portions;

  explicit Cut(const std::vector<uint64_t>& sizes, bool whole = false) {
    std::vector<BatchItem> items;
    for (const uint64_t bytes : sizes) items.push_back({.fragments = {}, .bytes = bytes});
    const uint64_t bytes = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    cuda::CutBatch(items, bytes, whole, pieces, portions);
  }

  std::vector<uint64_t> PortionBytes() const {
    std::vector<uint64_t> bytes(portions.size());
    for (size_t i = 0, portion = 0; i < pieces.size(); ++i) {
      if (portion + 1 < portions.size() && portions[portion + 1] == i) ++portion;
      bytes[portion] += pieces[i].bytes;
    }
    return bytes;
  }
};

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(CutBatchTest, PortionsGetSmallerTowardsTheEnd) {
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ(Cut({0}).PortionBytes(), Sizes({0}));
  EXPECT_EQ(Cut({700 * kKiB}).PortionBytes(), Sizes({700 * kKiB}));
  EXPECT_EQ(Cut({kMiB}).PortionBytes(), Sizes({512 * kKiB, 512 * kKiB}));
  EXPECT_EQ(Cut({16 * kMiB}).PortionBytes(), Sizes({8 * kMiB, 4 * kMiB, 4 * kMiB}));
  EXPECT_EQ(Cut({256 * kMiB}).PortionBytes(), Sizes(8, 32 * kMiB));
  EXPECT_EQ(Cut({16 * kMiB}, /*whole=*/true).PortionBytes(), Sizes({16 * kMiB}));
}

TEST(CutBatchTest, PayloadsThatFitAreNotCut) {
  const Cut cut(std::vector<uint64_t>(8, kMiB));
  EXPECT_EQ(cut.pieces.size(), 8U);
  EXPECT_EQ(cut.portions, std::vector<uint32_t>({0, 4, 6}));
  const Cut small(std::vector<uint64_t>(4096, 1));
  EXPECT_EQ(small.pieces.size(), 4096U);
  EXPECT_EQ(small.portions.size(), 1U);
}

TEST(CutBatchTest, PiecesAreThePayloadsInOrderAndWithinTheBounds) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> sizes(1 + random() % 300);
    const uint64_t shift = random() % 28;
    for (uint64_t& bytes : sizes) {
      bytes = random() % 4 == 0 ? random() % 3 : random() % (uint64_t{2} << (random() % 28));
      if (round % 2 == 0) bytes = random() % (uint64_t{2} << shift);
    }
    const Cut cut(sizes, /*whole=*/round % 7 == 0);
    uint32_t item = 0;
    uint64_t offset = 0, total = 0;
    for (size_t i = 0; i < cut.pieces.size(); ++i) {
      const cuda::Piece& piece = cut.pieces[i];
      ASSERT_EQ(piece.item, item);
      ASSERT_EQ(piece.item_offset, offset);
      ASSERT_TRUE(piece.bytes > 0 || sizes[item] == 0);
      total += piece.bytes;
      offset += piece.bytes;
      if (offset == sizes[item]) {
        ++item;
        offset = 0;
      } else {  // cut: the rest begins a portion
        ASSERT_TRUE(std::binary_search(cut.portions.begin(), cut.portions.end(), i + 1));
      }
    }
    ASSERT_EQ(item, sizes.size());
    ASSERT_EQ(cut.portions.front(), 0U);
    for (size_t i = 1; i < cut.portions.size(); ++i)
      ASSERT_LT(cut.portions[i - 1], cut.portions[i]);
    ASSERT_LT(cut.portions.back(), cut.pieces.size());
    ASSERT_LE(cut.portions.size(), cuda::PortionsMax(total, sizes.size()));
    ASSERT_LE(cut.pieces.size(), cuda::PiecesMax(total, sizes.size()));
  }
}

TEST(StreamingCopyTest, CopiesAnyLengthBetweenAnyAlignments) {
  constexpr size_t kBytesMax = 1000;
  std::vector<uint8_t> source(kBytesMax + 64);
  std::iota(source.begin(), source.end(), uint8_t{1});
  for (size_t to = 0; to < 64; to += 7) {
    for (size_t from = 0; from < 64; from += 5) {
      for (size_t bytes = 0; bytes <= kBytesMax; bytes += bytes < 330 ? 1 : 67) {
        std::vector<uint8_t> target(kBytesMax + 128, 0);
        const Fragment all(source);  // which ends in the midst of another fragment
        const Fragment parts[] = {all.first(bytes % 50), {}, all.subspan(bytes % 50)};
        cuda::StreamingCopy(target.data() + to, parts, from, bytes);
        cuda::StreamingFence();
        std::vector<uint8_t> expected(target.size(), 0);
        std::copy_n(source.begin() + static_cast<int64_t>(from), bytes,
                    expected.begin() + static_cast<int64_t>(to));
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(FaultPlanTest, CountsLaunchesFromOne) {
  const auto plan = cuda::FaultPlan::Parse("fail-launch=2,hang-launch=3,poison-launch=4");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kFail);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kHang);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kPoison);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
}

TEST(FaultPlanTest, EmptyMeansNone) {
  const auto plan = cuda::FaultPlan::Parse("");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE((*plan)->no_driver || (*plan)->driver_too_old || (*plan)->no_device ||
               (*plan)->out_of_memory);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
}

// Devices count by tables: a plan without them gets them, in any floating-point mode.
TEST(TypedPlanTest, HasTablesOfAnyPlan) {
  for (const SampleType type : {SampleType::kF32, SampleType::kI32, SampleType::kU8}) {
    const Binning binning = *Binning::Even(100, 0.1, 90.7);
    const cuda::TypedPlan made(*Plan::Make(binning, type));
    ASSERT_FALSE(made.tables().empty());
    for (const int rounding : {FE_TONEAREST, FE_UPWARD}) {
      std::fesetround(rounding);
      const cuda::TypedPlan direct(*Plan::Direct(binning, type));
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(direct.tables(), made.tables());
      std::visit([](const auto& bins) { EXPECT_GT(bins.reached, 0U); }, direct.BinsAt(nullptr));
    }
  }
}

// A device takes the key of the least sample from that of others, and -0.0 has a key of its own.
TEST(TypedPlanTest, BinsBeginAtNoNegativeZero) {
  for (const std::vector<double>& edges : {std::vector{-1e-46, 1e-300, 1e-46}, {-0.0, 1.0, 5.0}}) {
    const cuda::TypedPlan plan(*Plan::Make(*Binning::Edges(edges), SampleType::kF32));
    const auto bins = std::get<cuda::TypedBins<float>>(plan.BinsAt(plan.tables().data()));
    EXPECT_FALSE(std::signbit(bins.lower));
    EXPECT_EQ(bins.lower, 0);
  }
}

TEST(TypedPlanTest, IsMadeOnceOfAPlanAndGoesWithIt) {
  std::optional<Plan> plan = *Plan::Make(*Binning::Even(100, 0.0, 1.0), SampleType::kF32);
  std::optional<Plan> copy = plan;
  const Plan direct = *Plan::Direct(plan->binning(), plan->type());
  const std::weak_ptr<const cuda::TypedPlan> typed = cuda::TypedPlan::Of(*plan);
  EXPECT_EQ(cuda::TypedPlan::Of(*copy), typed.lock());
  EXPECT_NE(cuda::TypedPlan::Of(direct), cuda::TypedPlan::Of(direct));
  plan.reset();
  EXPECT_FALSE(typed.expired());
  copy.reset();
  EXPECT_TRUE(typed.expired());
}

// As a plan has it: thresholds, bounds and bins that no sample reaches. And no position is further
// from its bin than the bound says.
template <typename C>
void ExpectSameBins(const internal::Bins<C>& expected, const cuda::AnyTypedBins& found,
                    const std::string& what) {
  const auto& bins = std::get<cuda::TypedBins<C>>(found);
  ASSERT_EQ(bins.all_below, expected.all_below) << what;
  ASSERT_EQ(bins.reached, expected.thresholds.size()) << what;
  if (bins.reached == 0) return;
  ASSERT_EQ(bins.lower, expected.lower) << what;
  ASSERT_EQ(bins.upper, expected.upper) << what;
  std::vector<C> thresholds;
  for (uint32_t i = 0; i < bins.reached; ++i) {
    thresholds.push_back(cuda::ThresholdOf(bins, i));
    ASSERT_EQ(thresholds[i], expected.thresholds[i]) << what << ", bin " << i;
  }
  if (bins.by != cuda::FindBy::kGuess || bins.sure == 0) return;
  for (uint32_t i = 0; i < bins.reached; ++i) {
    const bool last = i + 1 == bins.reached;
    if (!last && thresholds[i] == thresholds[i + 1]) continue;
    const C greatest = last ? bins.upper : internal::Previous(thresholds[i + 1]);
    const double low = cuda::Position(thresholds[i], bins.lower, bins.scale, bins.offset) - i;
    const double high = cuda::Position(greatest, bins.lower, bins.scale, bins.offset) - i;
    ASSERT_GE(low, -1 + double{bins.sure}) << what << ", bin " << i;
    ASSERT_LE(high, 1 - double{bins.sure}) << what << ", bin " << i;
  }
}

TEST(EvenBinsTest, AreThoseOfAPlan) {
  std::mt19937_64 random(44);
  std::uniform_real_distribution<double> uniform(-1, 1);
  int guesses = 0;
  for (int round = 0; round < 4000; ++round) {
    const SampleType type = kAllTypes[round % std::size(kAllTypes)];
    const double scale = std::exp2(40 * uniform(random) + 12), middle = uniform(random) * scale;
    double lower = middle - scale * std::exp2(10 * uniform(random) - 10), upper = middle + scale;
    if (round % 3 == 0) {
      lower = std::floor(lower);
      upper = std::ceil(upper);
    }
    const auto bins = static_cast<uint32_t>(std::exp2(5.5 + 5.5 * uniform(random)));
    const auto arithmetic = static_cast<cuda::EdgeArithmetic>(round % 5 % 3);
    const cuda::EvenEdges edges = cuda::EvenEdgesOf(lower, upper, bins, arithmetic);
    if (!cuda::AreDistinct(edges)) continue;
    std::vector<double> listed;
    for (uint32_t i = 0; i <= bins; ++i) listed.push_back(edges.at(i));
    const Result<Binning> binning = Binning::Edges(listed);
    ASSERT_TRUE(binning.ok()) << binning.error().message;
    if (arithmetic == cuda::EdgeArithmetic::kDouble) {
      ASSERT_EQ(listed, Binning::Even(bins, lower, upper)->ComputeEdges());
    }
    const Plan plan = *Plan::Make(*binning, type);
    const cuda::AnyTypedBins found = cuda::MakeEvenBins(type, edges);
    std::visit([&](const auto& typed) { guesses += typed.sure > 0 ? 1 : 0; }, found);
    const std::string what =
        absl::StrCat(std::string(NameOf(type)), ", ", bins, " bins from ", lower, " to ", upper,
                     ", arithmetic ", static_cast<int>(arithmetic));
    std::visit([&](const auto& of_plan) { ExpectSameBins(of_plan, found, what); },
               plan.data().bins);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(guesses, 1000);
}

// An extent's key is back what it was made of.
TEST(ExtentTest, KeysOrderAsSamplesDo) {
  const std::vector<double> values = {-std::numeric_limits<double>::infinity(),  -1e30, -1.5, 0.0,
                                      std::numeric_limits<double>::denorm_min(), 2.0,   1e300};
  uint64_t before = 0;
  for (const double value : values) {
    const uint64_t key = cuda::ExtentKey(value);
    EXPECT_LT(before, key);
    before = key;
    EXPECT_EQ(cuda::ValueOfExtentKey(key, SampleType::kF64), value);
    const auto narrow = static_cast<float>(value);
    EXPECT_EQ(cuda::ValueOfExtentKey(cuda::ExtentKey(narrow), SampleType::kF32), narrow);
  }
  EXPECT_EQ(cuda::ExtentKey(-0.0F), cuda::ExtentKey(0.0F));
  EXPECT_GT(cuda::ExtentKey(-std::nan("")), before);
  EXPECT_TRUE(
      std::isnan(cuda::ValueOfExtentKey(cuda::ExtentKey(-std::nanf("")), SampleType::kF32)));
  EXPECT_EQ(cuda::ValueOfExtentKey(0x7FFFFFFF, SampleType::kI32), -1.0);
  EXPECT_EQ(cuda::ValueOfExtentKey(7, SampleType::kU16), 7.0);
}

TEST(FaultPlanTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"explode", "fail-launch", "fail-launch=0", "fail-launch=x",
                           "no-driver=1", "out-of-memory,explode"}) {
    const auto plan = cuda::FaultPlan::Parse(text);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(GetErrorDetail(plan.status()).field, "fault_injection") << text;
    EXPECT_TRUE(absl::StrContains(plan.status().message(), "poison-launch=N")) << plan.status();
  }
}

TEST(CudaStatusTest, ClassesOfErrors) {
  EXPECT_TRUE(cuda::ToStatus(cudaSuccess, "x").ok());
  EXPECT_TRUE(absl::IsUnavailable(cuda::ToStatus(cudaErrorIllegalAddress, "x")));
  EXPECT_TRUE(absl::IsUnavailable(cuda::ToStatus(cudaErrorECCUncorrectable, "x")));
  EXPECT_TRUE(absl::IsResourceExhausted(cuda::ToStatus(cudaErrorMemoryAllocation, "x")));
  const absl::Status launch = cuda::ToStatus(cudaErrorLaunchOutOfResources, "launch of y");
  EXPECT_TRUE(absl::IsInternal(launch));
  EXPECT_TRUE(absl::StrContains(launch.message(), "launch of y"));
  EXPECT_TRUE(absl::StrContains(launch.message(), "cudaErrorLaunchOutOfResources"));
}

TEST(RegistryTest, HasEveryKernelUnderItsName) {
  std::set<std::string> names;
  for (const KernelInfo& kernel : ListCudaKernels()) {
    EXPECT_EQ(kernel.backend, "cuda");
    EXPECT_FALSE(kernel.summary.empty());
    names.insert(kernel.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"naive_element", "naive_section", "naive_interleaved",
                                          "global_private", "shared_private", "shared_section",
                                          "register_private", "run_accumulator", "packed_thread",
                                          "cub_histogram", "lane_private", "warp_batch",
                                          "quad_batch", "one_block"}));
  EXPECT_EQ(cuda::FindKernel("no_such_kernel"), nullptr);
}

}  // namespace
}  // namespace histogram::testing
