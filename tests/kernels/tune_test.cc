// Filling a dispatch table from invented costs.
#include "kernels/tuning/tune.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"

namespace histogram::tuning {
namespace {

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

// A candidate that takes `fixed` ns and `per_kib` ns a KiB.
struct Invented {
  std::string name;
  int priority;
  uint64_t fixed, per_kib;
};

struct Outcome {
  std::vector<std::string> kernels;  // of each row
  std::map<std::string, int> measured;
  uint64_t spent_ns = 0;
};

Outcome TuneInvented(const std::vector<Invented>& all, const std::vector<uint64_t>& sizes,
                     uint64_t budget_ns = 1'000'000'000, uint64_t seed = 1) {
  std::vector<Candidate> candidates;
  for (const Invented& each : all) {
    candidates.push_back({each.name, each.priority});
  }
  TuneOptions options;
  options.budget_ns = budget_ns;
  testing::Random random(seed);
  Outcome outcome;
  const auto measure = [&](size_t i, const Workload& workload) -> absl::StatusOr<uint64_t> {
    ++outcome.measured[all[i].name];
    const double exact = static_cast<double>(all[i].fixed) +
                         static_cast<double>(all[i].per_kib * workload.batch_bytes) / 1024;
    const auto ns = static_cast<uint64_t>(exact * (1 + 0.03 * random.Unit()));
    outcome.spent_ns += ns;
    return ns;
  };
  for (const KernelChoice& row : Tune("test", candidates, Cells(sizes), options, measure)) {
    EXPECT_EQ(row.backend, "test");
    EXPECT_GT(row.cost_ns, 0U);
    EXPECT_GT(row.gigabytes_per_second, 0);
    outcome.kernels.push_back(row.kernel);
  }
  return outcome;
}

TEST(TuneTest, FindsTheCrossover) {
  for (uint64_t seed = 1; seed < 50; ++seed) {
    const Outcome outcome = TuneInvented({{"simple", 1, 10, 500}, {"set_up", 2, 1000, 100}},
                                         {64, 256, 1024, 4096, 16384, 65536}, 1'000'000'000, seed);
    ASSERT_EQ(outcome.kernels, std::vector<std::string>(
                                   {"simple", "simple", "simple", "set_up", "set_up", "set_up"}));
  }
}

// It would take minutes for one run of the largest cell: recognised while it is cheap.
TEST(TuneTest, SlowCandidateCannotHoldUpTheStart) {
  const Outcome outcome = TuneInvented({{"fast", 1, 100, 10}, {"glacial", 2, 100, 2'000'000}},
                                       {1024, 16384, 1 << 18, 1 << 22, 1 << 26}, 100'000'000);
  EXPECT_EQ(outcome.kernels, std::vector<std::string>(5, "fast"));
  EXPECT_LT(outcome.spent_ns, 300'000'000U);
  EXPECT_LE(outcome.measured.at("glacial"), 3);
}

TEST(TuneTest, FailingCandidateIsPassedOver) {
  const std::vector<Candidate> candidates = {{"works", 1}, {"fails", 2}};
  int failures = 0;
  const auto rows = Tune("test", candidates, Cells({100, 1000}), {},
                         [&](size_t i, const Workload&) -> absl::StatusOr<uint64_t> {
                           if (i == 0) return 100;
                           ++failures;
                           return absl::InternalError("does not launch");
                         });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].kernel, "works");
  EXPECT_EQ(rows[1].kernel, "works");
  EXPECT_EQ(failures, 2) << "once a cell";
}

TEST(TuneTest, NothingWorks) {
  const std::vector<Candidate> candidates = {{"fails", 2}};
  EXPECT_TRUE(Tune("test", candidates, Cells({100, 1000}), {},
                   [](size_t, const Workload&) -> absl::StatusOr<uint64_t> {
                     return absl::InternalError("no");
                   })
                  .empty());
  EXPECT_TRUE(
      Tune("test", {}, Cells({100}), {}, [](size_t, const Workload&) -> absl::StatusOr<uint64_t> {
        return 1;
      }).empty());
}

TEST(TuneTest, CancellingEndsItWithWhatIsKnown) {
  const std::vector<Candidate> candidates = {{"a", 1}, {"b", 2}};
  int left = 40;
  const auto rows = Tune("test", candidates, Cells({1, 2, 3, 4, 5, 6, 7, 8}), {},
                         [&left](size_t i, const Workload&) -> absl::StatusOr<uint64_t> {
                           if (left-- == 0) return absl::CancelledError("out of time");
                           return 1000 + 500 * i;
                         });
  EXPECT_EQ(left, -1) << "nothing is measured after";
  ASSERT_GE(rows.size(), 1U);
  EXPECT_LT(rows.size(), 8U);
  for (const KernelChoice& row : rows) EXPECT_EQ(row.kernel, "a");
}

// The one preferred is 4 % dearer: worth it where so much is noise, and not where it is not.
TEST(TuneTest, ACellMayBringItsOwnMargin) {
  const std::vector<Candidate> candidates = {{"cheaper", 1}, {"preferred", 2}};
  std::vector<TuneCell> cells = Cells({1024, 4096});
  cells[0].tuner = TunerOptions{.margin = 0.02};
  TuneOptions options;
  options.tuner.margin = 0.06;
  const auto rows = Tune(
      "test", candidates, cells, options,
      [](size_t i, const Workload&) -> absl::StatusOr<uint64_t> { return i == 0 ? 10000 : 10400; });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].kernel, "cheaper");
  EXPECT_EQ(rows[1].kernel, "preferred");
}

}  // namespace
}  // namespace histogram::tuning
