// The search for the cheapest candidate, on invented costs and noise.
#include "kernels/tuning/tuner.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"

namespace histogram::tuning {
namespace {

using ::histogram::testing::Random;

// Runs the search to its end; returns how often each candidate was measured.
std::vector<int> Search(Tuner& tuner, size_t candidates,
                        const std::function<uint64_t(size_t)>& cost_ns) {
  std::vector<int> measured(candidates, 0);
  for (int step = 0; step < 100000; ++step) {
    const std::optional<size_t> next = tuner.Next();
    if (!next.has_value()) return measured;
    ++measured[*next];
    tuner.Report(*next, cost_ns(*next));
  }
  ADD_FAILURE() << "the search does not end";
  return measured;
}

TEST(TunerTest, FindsTheCheapest) {
  for (size_t cheapest = 0; cheapest < 9; ++cheapest) {
    Tuner tuner(9);
    Search(tuner, 9, [cheapest](size_t i) -> uint64_t { return i == cheapest ? 1000 : 1500 + i; });
    EXPECT_EQ(tuner.best(), cheapest);
    EXPECT_EQ(tuner.cost_ns(cheapest), 1000U);
  }
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
    Tuner tuner(costs.size());
    Search(tuner, costs.size(), [&](size_t i) { return Noisy(costs[i], random); });
    if (tuner.best() == 2) ++right;
  }
  EXPECT_EQ(right, 300);
}

TEST(TunerTest, OneLuckyMeasurementDoesNotDecide) {
  Tuner tuner(2, {.first_round = 8, .last_round = 8});
  int of_the_first = 0;
  Search(tuner, 2, [&of_the_first](size_t i) -> uint64_t {
    if (i == 1) return 1500;
    return ++of_the_first == 3 ? 1000 : 2000;
  });
  EXPECT_EQ(tuner.best(), 1U);
  EXPECT_EQ(tuner.cost_ns(0), 2000U);
}

// Candidates that differ by less than the margin: the preferred one is chosen every time.
TEST(TunerTest, DoesNotFlapBetweenEquals) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Tuner tuner(4, {.margin = 0.1});
    Search(tuner, 4, [&](size_t i) { return Noisy(i == 0 ? 1010 : 1000 + i, random); });
    ASSERT_EQ(tuner.best(), 0U) << seed;
  }
}

TEST(TunerTest, MarginDoesNotHideARealDifference) {
  Tuner tuner(2, {.margin = 0.02});
  Search(tuner, 2, [](size_t i) -> uint64_t { return i == 0 ? 1030 : 1000; });
  EXPECT_EQ(tuner.best(), 1U);
}

TEST(TunerTest, HopelessCandidateIsMeasuredOnce) {
  Tuner tuner(3);
  const std::vector<int> measured =
      Search(tuner, 3, [](size_t i) -> uint64_t { return i == 1 ? 1000000 : 1000 + i; });
  EXPECT_EQ(measured[1], 1);
  EXPECT_GT(measured[0], 3);
  EXPECT_EQ(tuner.best(), 0U);
}

// Also when the hopeless one comes first and only the second shows that it is.
TEST(TunerTest, HopelessFirstCandidateIsMeasuredOnce) {
  Tuner tuner(2);
  const std::vector<int> measured =
      Search(tuner, 2, [](size_t i) -> uint64_t { return i == 0 ? 1000000 : 1000; });
  EXPECT_EQ(measured[0], 1);
  EXPECT_EQ(tuner.best(), 1U);
}

TEST(TunerTest, FailedCandidateIsNeverChosen) {
  Tuner tuner(3);
  int steps = 0;
  while (const std::optional<size_t> next = tuner.Next()) {
    ASSERT_LT(++steps, 1000);
    if (*next == 0 && tuner.cost_ns(0).has_value()) {
      tuner.Fail(0);  // after it looked best
      continue;
    }
    tuner.Report(*next, *next == 0 ? 1 : 1000 + *next);
  }
  EXPECT_EQ(tuner.best(), 1U);
  EXPECT_EQ(tuner.cost_ns(0), std::nullopt);
}

TEST(TunerTest, AllFail) {
  Tuner tuner(3);
  int steps = 0;
  while (const std::optional<size_t> next = tuner.Next()) {
    ASSERT_LT(++steps, 10);
    tuner.Fail(*next);
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(tuner.best(), std::nullopt);
}

TEST(TunerTest, NoCandidates) {
  Tuner tuner(0);
  EXPECT_EQ(tuner.Next(), std::nullopt);
  EXPECT_EQ(tuner.best(), std::nullopt);
}

TEST(TunerTest, OneCandidateIsMeasuredAndChosen) {
  Tuner tuner(1);
  const std::vector<int> measured = Search(tuner, 1, [](size_t) -> uint64_t { return 7; });
  EXPECT_GE(measured[0], 1);
  EXPECT_LE(measured[0], 12);
  EXPECT_EQ(tuner.best(), 0U);
}

TEST(TunerTest, BudgetEndsTheSearch) {
  Tuner tuner(4, {.budget_ns = 6000});
  const std::vector<int> measured = Search(tuner, 4, [](size_t i) -> uint64_t { return 1003 - i; });
  EXPECT_EQ(measured, std::vector<int>({2, 2, 1, 1}));
  EXPECT_EQ(tuner.best(), 0U);
}

// The first one eats the whole budget: the others must get their chance all the same, and one run
// beyond all budgets must not overflow.
TEST(TunerTest, BudgetEatenByOneCandidate) {
  Tuner tuner(3, {.budget_ns = UINT64_MAX - 1});
  const std::vector<int> measured =
      Search(tuner, 3, [](size_t i) -> uint64_t { return i == 0 ? UINT64_MAX : 1000; });
  EXPECT_EQ(measured, std::vector<int>({1, 1, 1}));
  EXPECT_EQ(tuner.best(), 1U);
}

// Within a round all take turns, so that a disturbance does not hit one candidate alone.
TEST(TunerTest, CandidatesTakeTurns) {
  Tuner tuner(3, {.first_round = 2});
  std::vector<size_t> order;
  for (int i = 0; i < 6; ++i) {
    order.push_back(*tuner.Next());
    tuner.Report(order.back(), 100);
  }
  EXPECT_EQ(order, std::vector<size_t>({0, 1, 2, 0, 1, 2}));
}

TEST(TunerTest, ZeroCostsAreCosts) {
  Tuner tuner(2);
  Search(tuner, 2, [](size_t) -> uint64_t { return 0; });
  EXPECT_EQ(tuner.best(), 0U);
}

// More candidates and more noise than any device has: the search stays short.
TEST(TunerTest, EffortIsBounded) {
  Random random(3);
  Tuner tuner(50);
  const std::vector<int> measured =
      Search(tuner, 50, [&](size_t i) { return Noisy(1000 + 10 * i, random); });
  EXPECT_LE(std::accumulate(measured.begin(), measured.end(), 0), 50 * 3 + 25 * 6 + 13 * 12 * 5);
}

}  // namespace
}  // namespace histogram::tuning
