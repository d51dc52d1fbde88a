// Filling a dispatch table from invented costs and noise.
#include "kernels/tuning/tune.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"

namespace histogram::tuning {
namespace {

using ::histogram::testing::Random;
using CostNs = std::function<absl::StatusOr<uint64_t>(size_t candidate, uint64_t bytes)>;

constexpr uint64_t kSecond = 1'000'000'000;

std::vector<TuneCell> Cells(const std::vector<uint64_t>& sizes) {
  std::vector<TuneCell> cells;
  for (const uint64_t size : sizes) {
    TuneCell cell;
    cell.measured.payload_bytes = cell.measured.batch_bytes = size;
    cell.payload_bytes_max = size;
    cell.payloads_max = 1;
    cells.push_back(cell);
  }
  return cells;
}

struct Outcome {
  std::vector<std::string> kernels;  // of each row; candidates are "0", "1" ...
  std::vector<int> measured;         // how often, each candidate
  uint64_t spent_ns = 0;
};

Outcome TuneInvented(size_t candidates, const std::vector<TuneCell>& cells, const CostNs& cost_ns,
                     uint64_t time_ns = kSecond) {
  std::vector<std::string> names;
  for (size_t i = 0; i < candidates; ++i) names.push_back(std::to_string(i));
  Outcome outcome;
  outcome.measured.resize(candidates);
  const auto measure = [&](size_t i, const Workload& workload) -> absl::StatusOr<uint64_t> {
    ++outcome.measured[i];
    const absl::StatusOr<uint64_t> ns = cost_ns(i, workload.batch_bytes);
    if (ns.ok()) outcome.spent_ns += *ns;
    return ns;
  };
  const auto left_ns = [&] { return time_ns - std::min(time_ns, outcome.spent_ns); };
  for (const KernelChoice& row : Tune("test", names, cells, left_ns, measure)) {
    EXPECT_EQ(row.backend, "test");
    outcome.kernels.push_back(row.kernel);
  }
  return outcome;
}

// Of one cell of a byte.
Outcome Search(size_t candidates, const std::function<absl::StatusOr<uint64_t>(size_t)>& cost_ns,
               uint64_t time_ns = kSecond, double margin = 0.02) {
  std::vector<TuneCell> cells = Cells({1});
  cells[0].margin = margin;
  return TuneInvented(
      candidates, cells, [&](size_t i, uint64_t) { return cost_ns(i); }, time_ns);
}

using Names = std::vector<std::string>;

// Noise as machines have it: mostly small, sometimes a multiple, never negative.
uint64_t Noisy(uint64_t cost_ns, Random& random) {
  double factor = 1 + 0.05 * random.Unit();
  if (random.Below(5) == 0) factor += 3 * random.Unit();
  return static_cast<uint64_t>(static_cast<double>(cost_ns) * factor);
}

TEST(TuneTest, FindsTheCheapestUnderNoise) {
  const std::vector<uint64_t> costs = {2000, 1300, 1000, 5000, 1150, 1700, 90000, 1400};
  int measured = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Outcome outcome = Search(costs.size(), [&](size_t i) { return Noisy(costs[i], random); });
    ASSERT_EQ(outcome.kernels, Names({"2"})) << seed;
    for (const int of_each : outcome.measured) measured += of_each;
  }
  EXPECT_LT(measured, 300 * 100) << "of 192, if none were left out";
}

// Candidates that differ by less than the margin: the preferred one is chosen every time.
TEST(TuneTest, DoesNotFlapBetweenEquals) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto cost_ns = [&](size_t i) { return Noisy(i == 3 ? 1010 : 1000 + i, random); };
    ASSERT_EQ(Search(4, cost_ns, kSecond, 0.1).kernels, Names({"3"})) << seed;
  }
  EXPECT_EQ(Search(2, [](size_t) -> uint64_t { return 0; }).kernels, Names({"1"}));
}

TEST(TuneTest, FailedCandidateIsNeverChosen) {
  int of_the_last = 0;
  const Outcome outcome = Search(3, [&of_the_last](size_t i) -> absl::StatusOr<uint64_t> {
    if (i < 2) return 1000 - i;
    if (++of_the_last == 1) return 1;
    return absl::InternalError("after it looked best");
  });
  EXPECT_EQ(outcome.measured[2], 2);
  EXPECT_EQ(outcome.kernels, Names({"1"}));
  EXPECT_TRUE(Search(1, [](size_t) { return absl::InternalError("no"); }).kernels.empty());
  EXPECT_TRUE(Search(0, [](size_t) -> uint64_t { return 1; }).kernels.empty());
}

// The first one eats the time of its cell: the others must get their chance all the same.
TEST(TuneTest, TimeEatenByOneCandidate) {
  const Outcome outcome = TuneInvented(
      3, Cells({1, 1}), [](size_t i, uint64_t) -> uint64_t { return i == 2 ? 6000 : 1000 + i; },
      10'000);
  EXPECT_EQ(outcome.measured, std::vector<int>({2, 2, 1}));
  EXPECT_EQ(outcome.kernels, Names({"1", "1"}));
}

TEST(TuneTest, FindsTheCrossover) {
  for (uint64_t seed = 1; seed < 50; ++seed) {
    Random random(seed);
    const auto cost_ns = [&random](size_t i, uint64_t bytes) {
      const double exact =
          i == 0 ? 10 + 0.5 * static_cast<double>(bytes) : 1000 + 0.1 * static_cast<double>(bytes);
      return static_cast<uint64_t>(exact * (1 + 0.03 * random.Unit()));
    };
    const Outcome outcome = TuneInvented(2, Cells({64, 256, 1024, 4096, 16384, 65536}), cost_ns);
    ASSERT_EQ(outcome.kernels, Names({"0", "0", "0", "1", "1", "1"}));
  }
}

// It would take minutes for one run of the largest cell: recognised while it is cheap.
TEST(TuneTest, SlowCandidateCannotHoldUpTheStart) {
  const Outcome outcome = TuneInvented(
      2, Cells({1024, 16384, 1 << 18, 1 << 22, 1 << 26}),
      [](size_t i, uint64_t bytes) { return 100 + bytes / 100 * (i == 0 ? 1 : 200'000); },
      100'000'000);
  EXPECT_EQ(outcome.kernels, Names(5, "0"));
  EXPECT_LT(outcome.spent_ns, 300'000'000U);
  EXPECT_LE(outcome.measured[1], 3);
}

TEST(TuneTest, EndsInTimeWithWhatIsKnown) {
  const Outcome outcome = TuneInvented(
      2, Cells({1, 2, 3, 4, 5, 6, 7, 8}),
      [](size_t i, uint64_t bytes) { return bytes > 3 ? 50'000 : 1000 + 500 * i; }, 100'000);
  EXPECT_LE(outcome.spent_ns, 150'000U);
  EXPECT_EQ(outcome.kernels.front(), "0");
  EXPECT_LT(outcome.kernels.size(), 8U);
}

}  // namespace
}  // namespace histogram::tuning
