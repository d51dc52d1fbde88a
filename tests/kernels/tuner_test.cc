// The search for the cheapest candidate, on invented costs and noise.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/tuning/tune.h"
#include "tests/kernels/payloads.h"

namespace histogram::tuning {
namespace {

using ::histogram::testing::Random;

struct Searched {
  std::optional<Cheapest> best;
  std::vector<int> measured;  // how often, each candidate
  std::vector<size_t> order;  // of the measurements

  std::optional<size_t> candidate() const {
    return best.has_value() ? std::optional(best->candidate) : std::nullopt;
  }
};

Searched Search(size_t candidates, const std::function<absl::StatusOr<uint64_t>(size_t)>& cost_ns,
                const TunerOptions& options = {}) {
  Searched outcome;
  outcome.measured.resize(candidates);
  outcome.best = FindCheapest(candidates, options, [&](size_t i) -> absl::StatusOr<uint64_t> {
    ++outcome.measured[i];
    outcome.order.push_back(i);
    if (outcome.order.size() < 100000) return cost_ns(i);
    ADD_FAILURE() << "the search does not end";
    return absl::CancelledError();
  });
  return outcome;
}

// Noise as machines have it: mostly small, sometimes a multiple, never negative.
uint64_t Noisy(uint64_t cost_ns, Random& random) {
  double factor = 1 + 0.05 * random.Unit();
  if (random.Below(5) == 0) factor += 3 * random.Unit();
  return static_cast<uint64_t>(static_cast<double>(cost_ns) * factor);
}

TEST(TunerTest, FindsTheCheapestUnderNoise) {
  const std::vector<uint64_t> costs = {2000, 1300, 1000, 5000, 1150, 1700, 90000, 1400};
  int right = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Searched outcome =
        Search(costs.size(), [&](size_t i) { return Noisy(costs[i], random); });
    if (outcome.candidate() == 2U) ++right;
  }
  EXPECT_EQ(right, 300);
}

TEST(TunerTest, OneLuckyMeasurementDoesNotDecide) {
  int of_the_first = 0;
  const auto cost_ns = [&of_the_first](size_t i) -> uint64_t {
    if (i == 1) return 1500;
    return ++of_the_first == 3 ? 1000 : 2000;
  };
  EXPECT_EQ(Search(2, cost_ns, {.first_round = 8, .last_round = 8}).candidate(), 1U);
}

// Candidates that differ by less than the margin: the preferred one is chosen every time.
TEST(TunerTest, DoesNotFlapBetweenEquals) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto cost_ns = [&](size_t i) { return Noisy(i == 0 ? 1010 : 1000 + i, random); };
    ASSERT_EQ(Search(4, cost_ns, {.margin = 0.1}).candidate(), 0U) << seed;
  }
}

TEST(TunerTest, FailedCandidateIsNeverChosen) {
  int of_the_first = 0;
  const Searched outcome = Search(3, [&of_the_first](size_t i) -> absl::StatusOr<uint64_t> {
    if (i > 0) return 1000 + i;
    if (++of_the_first == 1) return 1;
    return absl::InternalError("after it looked best");
  });
  // Beside its first cost the others look hopeless.
  EXPECT_EQ(outcome.measured, std::vector<int>({2, 1, 1}));
  EXPECT_EQ(outcome.candidate(), 1U);
}

TEST(TunerTest, BudgetEndsTheSearch) {
  const Searched outcome =
      Search(4, [](size_t i) -> uint64_t { return 1003 - i; }, {.budget_ns = 6000});
  EXPECT_EQ(outcome.measured, std::vector<int>({2, 2, 1, 1}));
  EXPECT_EQ(outcome.candidate(), 0U);
}

// The first one eats the whole budget: the others must get their chance all the same, and one run
// beyond all budgets must not overflow.
TEST(TunerTest, BudgetEatenByOneCandidate) {
  const auto cost_ns = [](size_t i) -> uint64_t { return i == 0 ? UINT64_MAX : 1000; };
  const Searched outcome = Search(3, cost_ns, {.budget_ns = UINT64_MAX - 1});
  EXPECT_EQ(outcome.measured, std::vector<int>({1, 1, 1}));
  EXPECT_EQ(outcome.candidate(), 1U);
}

TEST(TunerTest, ZeroCostsAreCosts) {
  EXPECT_EQ(Search(2, [](size_t) -> uint64_t { return 0; }).candidate(), 0U);
}

// More candidates and more noise than any device has: the search stays short.
TEST(TunerTest, EffortIsBounded) {
  Random random(3);
  const Searched outcome = Search(50, [&](size_t i) { return Noisy(1000 + 10 * i, random); });
  EXPECT_LE(outcome.order.size(), 50 * 3 + 25 * 6 + 13 * 12 * 5U);
}

}  // namespace
}  // namespace histogram::tuning
