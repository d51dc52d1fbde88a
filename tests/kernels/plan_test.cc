// The proof of a plan's guess, and plans without tables, against what the edges say of each sample.
#include <histogram/plan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/plan_data.h"
#include "kernels/sample.h"
#include "kernels/slot.h"
#include "tests/kernels/typed_samples.h"

namespace histogram {
namespace {

using testing::Rounds;  // HISTOGRAM_TYPED_ROUNDS=1000000: millions of configurations

// By comparison with the edges, which a long double does exactly.
template <typename C>
uint32_t SlotByEdges(const std::vector<double>& edges, C sample) {
  const auto x = static_cast<long double>(sample);
  const auto bins = static_cast<uint32_t>(edges.size() - 1);
  if (std::isnan(x)) return bins + internal::kNanSlot;
  if (x < edges.front()) return bins + internal::kBelowSlot;
  if (x > edges.back()) return bins + internal::kAboveSlot;
  const auto above = std::upper_bound(edges.begin(), edges.end(), x);
  return std::min(static_cast<uint32_t>(above - edges.begin()), bins) - 1;
}

// The sample that is `steps` above x, in the order of the type's values; the last one beyond.
template <typename C>
C Step(C x, int64_t steps) {
  if constexpr (std::is_floating_point_v<C>) {
    const C to =
        steps < 0 ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::infinity();
    for (int64_t s = std::abs(steps); s > 0; --s) x = std::nextafter(x, to);
    return x;
  } else {
    const auto sum = static_cast<long double>(x) + static_cast<long double>(steps);
    return static_cast<C>(std::clamp<long double>(sum, std::numeric_limits<C>::lowest(),
                                                  std::numeric_limits<C>::max()));
  }
}

template <typename C>
constexpr SampleType TypeOf() {
  if (std::is_same_v<C, float>) return SampleType::kF32;
  if (std::is_same_v<C, double>) return SampleType::kF64;
  if (std::is_same_v<C, uint32_t>) return SampleType::kU32;
  if (std::is_same_v<C, int32_t>) return SampleType::kI32;
  return std::is_same_v<C, uint64_t> ? SampleType::kU64 : SampleType::kI64;
}

template <typename C>
class PlanProofTest : public ::testing::Test {
 protected:
  // A plan, the same without tables, and what their edges are.
  struct Tried {
    Plan plan, direct;
    std::vector<double> edges;
    const internal::Bins<C>& bins() const { return BinsOf(plan); }
    static const internal::Bins<C>& BinsOf(const Plan& of) {
      return std::get<internal::Bins<C>>(of.data().bins);
    }
    void Expect(C x) const {
      const auto count = static_cast<uint32_t>(edges.size() - 1);
      for (const Plan* tried : {&plan, &direct}) {
        ASSERT_EQ(internal::SlotOf(BinsOf(*tried), count, x), SlotByEdges(edges, x))
            << static_cast<long double>(x) << " of " << count << " bins over [" << edges.front()
            << ", " << edges.back() << "] by " << tried->family() << ", error "
            << BinsOf(*tried).guess.error;
      }
    }
  };

  Tried Make(const Binning& binning) {
    Tried tried{*Plan::Make(binning, TypeOf<C>()), *Plan::Direct(binning, TypeOf<C>()),
                binning.ComputeEdges()};
    EXPECT_EQ(tried.direct.family(), "direct");
    EXPECT_TRUE(Tried::BinsOf(tried.direct).thresholds.empty());
    const internal::Guess& guess = tried.bins().guess;
    if (tried.bins().thresholds.empty()) return tried;
    ++(guess.proven() ? proven_ : guess.mendable() ? mended_ : guess.usable() ? unsure_ : key_);
    return tried;
  }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  // A finite sample: of any size, or one that arithmetic is bad at.
  C Base() {
    if constexpr (std::is_floating_point_v<C>) {
      constexpr C kTiny = std::numeric_limits<C>::denorm_min();
      constexpr C kSpecial[] = {0, kTiny, -kTiny, std::numeric_limits<C>::min(),
                                1, -1,    C(0.1), 1024};
      if (random_() % 2 == 0) return kSpecial[random_() % std::size(kSpecial)];
      return static_cast<C>(std::copysign(std::exp2(Uniform(-60, 60)), Uniform(-1, 1)));
    } else {
      constexpr C kSpecial[] = {0,
                                1,
                                std::numeric_limits<C>::max(),
                                std::numeric_limits<C>::lowest(),
                                C{1} << 30,
                                C(C{1} << (sizeof(C) * 6))};
      if (random_() % 2 == 0) return kSpecial[random_() % std::size(kSpecial)];
      return static_cast<C>(random_());
    }
  }

  std::mt19937_64 random_{20261124};
  size_t proven_ = 0, mended_ = 0, unsure_ = 0, key_ = 0;
};

using Types = ::testing::Types<float, double, uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(PlanProofTest, Types);

// Ranges of few samples, and every sample in them and beside them.
TYPED_TEST(PlanProofTest, EverySampleOfSmallRanges) {
  using C = TypeParam;
  for (size_t round = 0; round < Rounds(2000); ++round) {
    const auto count = static_cast<int64_t>(1 + this->random_() % 400);
    const C base = this->Base();
    const double unit = static_cast<double>(Step(base, 1)) - static_cast<double>(base);
    // On samples, between them, and anywhere.
    double lower = static_cast<double>(base), upper = static_cast<double>(Step(base, count));
    if (round % 3 == 1) lower += unit / 2, upper += unit / 2;
    if (round % 3 == 2) lower += unit * this->Uniform(-1, 1), upper += unit * this->Uniform(-1, 1);
    const auto bins = static_cast<uint32_t>(1 + this->random_() % (2 * count));
    const Result<Binning> binning = Binning::Even(bins, lower, upper);
    if (!binning.ok()) continue;  // neighbouring edges are one double
    const auto tried = this->Make(*binning);
    C x = Step(base, -3);
    for (int64_t i = -3; i <= count + 3; ++i, x = Step(x, 1)) {
      tried.Expect(x);
      if (this->HasFatalFailure()) return;
    }
  }
  EXPECT_GT(this->proven_ + this->mended_ + this->unsure_, 0U);
}

// Both ends of each bin, which is what the proof looks at, and samples of its inside.
TYPED_TEST(PlanProofTest, EndsOfBinsOfAnyRange) {
  using C = TypeParam;
  for (size_t round = 0; round < Rounds(10000); ++round) {
    const double scale = std::exp2(this->Uniform(-40, 62));
    double lower = this->Uniform(-1, 1) * scale, upper = lower + this->Uniform(0, 1) * scale;
    if (round % 4 == 0) lower = -scale, upper = scale;                        // around zero
    if (round % 4 == 1) lower = std::floor(lower), upper = std::ceil(upper);  // on integers
    if (round % 8 == 2) lower = 0;
    if (round % 8 == 3) upper = 0;
    const auto bins = static_cast<uint32_t>(std::exp2(this->Uniform(0, 7)));
    Result<Binning> binning = Binning::Even(bins, lower, upper);
    if (!binning.ok()) continue;
    if (round % 5 == 0) {  // nearly even: each edge rounded to a float
      std::vector<double> edges = binning->ComputeEdges();
      for (double& edge : edges) edge = static_cast<double>(static_cast<float>(edge));
      binning = Binning::Edges(edges);
      if (!binning.ok()) continue;
    }
    if (round % 5 == 1) {  // numpy's, of narrow types
      const SampleType narrow = round % 2 == 0 ? SampleType::kF32 : SampleType::kF16;
      const SampleType other = round % 3 == 0 ? SampleType::kF64 : narrow;
      binning = Binning::EvenIn({round % 4 == 0 ? narrow : other, narrow}, bins, lower, upper);
      if (!binning.ok()) continue;
    }
    const auto tried = this->Make(*binning);
    const std::vector<C>& thresholds = tried.bins().thresholds;
    for (size_t i = 0; i < thresholds.size(); ++i) {
      const C next = i + 1 < thresholds.size() ? thresholds[i + 1] : tried.bins().upper;
      const C inside = static_cast<C>(thresholds[i] / 2 + next / 2);
      for (const C x : {Step(thresholds[i], -2), Step(thresholds[i], -1), thresholds[i],
                        Step(thresholds[i], 1), inside, Step(next, 1)}) {
        tried.Expect(x);
        if (this->HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(this->proven_, 0U);
}

// The same between uneven edges, among them zero.
TYPED_TEST(PlanProofTest, EndsOfBinsBetweenUnevenEdges) {
  using C = TypeParam;
  for (size_t round = 0; round < Rounds(600); ++round) {
    std::vector<double> edges = testing::RandomEdges(round % 2 == 0, 9, this->random_);
    const double away = round % 3 == 0 ? 1000 * edges.back() : 0;  // far from zero, they are narrow
    for (double& edge : edges) edge += away;
    if (round % 3 == 1) edges.push_back(0);
    std::sort(edges.begin(), edges.end());
    const Result<Binning> binning = Binning::Edges(edges);
    if (!binning.ok()) continue;  // moved edges may be equal
    const auto tried = this->Make(*binning);
    for (const C threshold : tried.bins().thresholds) {
      for (const C x : {Step(threshold, -2), Step(threshold, -1), threshold, Step(threshold, 1)}) {
        tried.Expect(x);
      }
    }
    for (const C x : {C{0}, static_cast<C>(-0.0), tried.bins().upper}) tried.Expect(x);
    if (this->HasFatalFailure()) return;
  }
  EXPECT_GT(this->key_, 0U);
}

// As wide as doubles allow, and so narrow that steps are subnormal or edges are neighbours.
TYPED_TEST(PlanProofTest, EndsOfBinsOfExtremeRanges) {
  using C = TypeParam;
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const auto& [lower, upper] : {std::pair(-kMost / 2, kMost / 2),
                                     {0.0, kMost},
                                     {-kMost, 0.0},
                                     {0.0, 1000 * kLeast},
                                     {-700 * kLeast, 700 * kLeast},
                                     {0.0, 1e-307},
                                     {-1e-303, 1e-303},
                                     {1.0, 1 + 1000 * 0x1p-52},
                                     {0x1p53, 0x1p53 + 2000},
                                     {1.7e18, 1.7e18 + 256 * 1000},
                                     {-0x1p63, 0x1p63},
                                     {0.0, 0x1p64},
                                     {0x1p64 - 2048 * 1000, 0x1p64},
                                     {0x1p63 - 1024 * 1000, 0x1p63},
                                     {-0x1p63, -0x1p63 + 1024 * 1000},
                                     {-0x1p64, -0x1p62},
                                     {0x1p62, 0x1p65}}) {
    for (const uint32_t bins : {1U, 2U, 7U, 300U, 700U}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      if (!binning.ok()) continue;
      const auto tried = this->Make(*binning);
      for (const C threshold : tried.bins().thresholds) {
        for (int step = -2; step <= 2; ++step) tried.Expect(Step(threshold, step));
      }
      using Limits = std::numeric_limits<C>;
      for (const C x : {Limits::lowest(), Limits::max(), C{0}, tried.bins().upper,
                        Step(tried.bins().upper, 1), static_cast<C>(-0.0)}) {
        tried.Expect(x);
      }
      if constexpr (Limits::has_infinity) {
        for (const C x : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
          tried.Expect(x);
        }
      }
      if (this->HasFatalFailure()) return;
    }
  }
}

// What makes the usual plans fast: nothing is left to settle but below zero.
TEST(PlanProof, UsualPlansAreProvenOrMended) {
  for (const auto& [lower, upper] : {std::pair(0.0, 1.0),
                                     {0.0, 255.0},
                                     {-1.0, 1.0},
                                     {-4.0, 4.0},
                                     {-3.0, 3.0},
                                     {-128.0, 128.0}}) {
    for (const uint32_t bins : {10U, 100U, 256U, 1000U, 2048U, 4096U, 65536U}) {
      const Plan plan = *Plan::Make(*Binning::Even(bins, lower, upper), SampleType::kF32);
      const internal::Guess& guess = std::get<internal::Bins<float>>(plan.data().bins).guess;
      EXPECT_TRUE(guess.proven() || guess.mendable())
          << bins << " bins over [" << lower << ", " << upper << "], error " << guess.error;
    }
  }
}

TEST(PlanTest, FewSamplesTakeNoTables) {
  const Binning even = *Binning::Even(2048, 0.1, 0.8);
  const Binning wide = *Binning::Even(2048, 0, 10'000);
  const Binning uneven = *Binning::Edges(std::vector<double>{0, 1, 10, 100});
  EXPECT_FALSE(Plan::MakeFor(even, SampleType::kF32, 100'000)->has_tables());
  EXPECT_TRUE(Plan::MakeFor(even, SampleType::kF32, 1'000'000)->has_tables());
  EXPECT_FALSE(Plan::MakeFor(wide, SampleType::kI64, 5'000)->has_tables());
  EXPECT_TRUE(Plan::MakeFor(wide, SampleType::kI64, 100'000)->has_tables());
  EXPECT_FALSE(Plan::MakeFor(even, SampleType::kF16, 10'000)->has_tables());
  EXPECT_TRUE(Plan::MakeFor(even, SampleType::kF16, 1'000'000)->has_tables());
  EXPECT_FALSE(Plan::MakeFor(uneven, SampleType::kF64, 1000)->has_tables());
  EXPECT_TRUE(Plan::MakeFor(uneven, SampleType::kF64, 10'000)->has_tables());
  EXPECT_FALSE(Plan::MakeFor(uneven, SampleType::kI32, 100)->has_tables());
  EXPECT_TRUE(Plan::MakeFor(uneven, SampleType::kI32, 10'000)->has_tables());
  const Binning letters = *Binning::Alphabet('a', 26, 1);
  EXPECT_EQ(Plan::MakeFor(letters, SampleType::kF32, 1).error().code, ErrorCode::kBadBinning);
  EXPECT_TRUE(Plan::MakeFor(letters, SampleType::kU8, 1)->counts_values());
  EXPECT_TRUE(Plan::MakeFor(even, SampleType::kU8, 1'000'000)->counts_values());
}

// A kernel computes the edges of these, for data that is all on edges.
TEST(PlanProof, UsualPlansOfDoublesComputeTheirEdges) {
  size_t computed = 0;
  for (const auto& [lower, upper] : {std::pair(0.0, 1.0), {0.1, 0.8}, {-4.0, 4.0}, {0.0, 255.0}}) {
    for (const uint32_t bins : {10U, 100U, 1000U, 4096U, 65536U}) {
      const Plan plan = *Plan::Make(*Binning::Even(bins, lower, upper), SampleType::kF64);
      const internal::Guess& guess = std::get<internal::Bins<double>>(plan.data().bins).guess;
      computed += guess.computes_edges() ? 1 : 0;
      EXPECT_TRUE(guess.proven() || guess.mendable() || guess.computes_edges())
          << bins << " bins over [" << lower << ", " << upper << "], error " << guess.error;
    }
  }
  EXPECT_GT(computed, 0U);
}

// By which processors multiply slowly.
TEST(PlanProof, NoGuessHasASubnormalScale) {
  EXPECT_EQ(Plan::Make(*Binning::Edges({{4, 1e308}}), SampleType::kF64)->family(), "key");
}

// One comparison decides: usual edges are hardly closer together than cells.
TEST(PlanProof, UsualUnevenEdgesNeedOneStep) {
  struct Edges {
    const char* name;
    double (*at)(double share);  // share: from -1 to 1
  };
  constexpr Edges kEdges[] = {
      {"closer in the middle", [](double s) { return 2 * (s * s * s + s); }},
      {"third powers", [](double s) { return 4 * s * s * s; }},
      {"powers of e", [](double s) { return std::exp(14 * s); }},
      {"powers on both sides of zero", [](double s) { return std::sinh(20 * s); }},
      {"far from zero", [](double s) { return 1e5 + 1000 * (s * s * s + s); }}};
  for (const auto& [name, at] : kEdges) {
    std::vector<double> edges;
    for (int i = 0; i <= 1000; ++i) edges.push_back(at(i / 500.0 - 1));
    for (const SampleType type : {SampleType::kF32, SampleType::kF64}) {
      const Plan plan = *Plan::Make(*Binning::Edges(edges), type);
      ASSERT_EQ(plan.family(), "key") << name;
      const auto expect_one_step = [&](const auto& bins) { EXPECT_LE(bins.cells.span_max, 1U); };
      SCOPED_TRACE(std::string(name) + ", " + std::string(NameOf(type)));
      std::visit(expect_one_step, plan.data().bins);
    }
  }
}

}  // namespace
}  // namespace histogram
