#include "bench/kernels/targets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/kernels/harness.h"

namespace histogram::bench {
namespace {

constexpr char kCub[] = "cub_histogram";

class Judge {
 public:
  void AtLeast(const std::string& name, double target, std::optional<double> measured) {
    if (measured.has_value()) rows_.push_back({name, ">=", target, *measured, *measured >= target});
  }
  void AtMost(const std::string& name, double target, std::optional<double> measured) {
    if (measured.has_value()) rows_.push_back({name, "<=", target, *measured, *measured <= target});
  }
  std::vector<TargetRow> Take() { return std::move(rows_); }

 private:
  std::vector<TargetRow> rows_;
};

void Lower(std::map<std::string, double>& least, const std::string& key, double value) {
  const auto [at, is_new] = least.emplace(key, value);
  if (!is_new) at->second = std::min(at->second, value);
}

std::optional<double> Greatest(const std::map<std::string, double>& values) {
  std::optional<double> most;
  for (const auto& [key, value] : values) most = std::max(most.value_or(value), value);
  return most;
}

// The fraction of the ceiling that one kernel reaches on every distribution.
std::optional<double> LevelKernel(const Results& results, uint64_t bytes) {
  std::map<std::string, double> worst;
  for (const KernelRow& row : results.kernels) {
    if (row.bytes != bytes || row.prefix) continue;
    Lower(worst, row.kernel, row.of_ceiling);
  }
  return Greatest(worst);
}

// The same for batches.
std::optional<double> LevelBatch(const Results& results, uint64_t payload_bytes) {
  std::map<std::string, double> worst;
  for (const BatchRow& row : results.batches) {
    if (row.payload_bytes == payload_bytes) Lower(worst, row.kernel, row.of_bound);
  }
  return Greatest(worst);
}

// How far the best other kernel is ahead of CUB's where it is ahead least, over all
// distributions.
std::optional<double> AheadOfCub(const Results& results) {
  std::map<std::string, std::pair<double, double>> cells;  // CUB's rate, the best other's
  for (const KernelRow& row : results.kernels) {
    if (row.prefix || row.bytes < 256 * kMiB) continue;
    auto& [cub, other] = cells[absl::StrCat(row.bytes, " ", row.distribution)];
    double& mine = row.kernel == kCub ? cub : other;
    mine = std::max(mine, row.gbps);
  }
  std::optional<double> least;
  for (const auto& [cell, rates] : cells) {
    if (rates.first <= 0) continue;
    const double ahead = rates.second / rates.first;
    least = std::min(least.value_or(ahead), ahead);
  }
  return least;
}

const HostRow* FindHost(const Results& results, uint64_t bytes, uint32_t lanes) {
  for (const HostRow& row : results.host) {
    if (row.bytes == bytes && row.lanes == lanes) return &row;
  }
  return nullptr;
}

// The best over the lane counts, of the size for which it is least.
std::optional<double> LargeFromHost(const Results& results) {
  std::map<uint64_t, double> best;
  for (const HostRow& row : results.host) {
    if (row.bytes >= 16 * kMiB) best[row.bytes] = std::max(best[row.bytes], row.gbps);
  }
  std::optional<double> least;
  for (const auto& [bytes, gbps] : best) least = std::min(least.value_or(gbps), gbps);
  if (least.has_value()) *least /= results.ceilings.host_to_device_gbps;
  return least;
}

// How far the worst choice is from the best kernel, in units of 1 us or of 3 %, whichever makes it
// less.
std::optional<double> WorstChoice(const Results& results) {
  std::optional<double> worst;
  for (const ChoiceRow& row : results.choices) {
    const double distance =
        std::min((row.us - row.best_us) / 1.0, (row.us / row.best_us - 1) / 0.03);
    worst = std::max(worst.value_or(distance), distance);
  }
  return worst;
}

}  // namespace

std::vector<TargetRow> JudgeTargets(const Results& results) {
  Judge judge;
  const auto read = results.ceilings.read.find(kGiB);
  if (read != results.ceilings.read.end()) {
    judge.AtLeast("read ceiling at 1 GiB, of the memory's own rate (below, the run is void)", 0.895,
                  read->second.gbps / results.ceilings.memory_gbps);
  }
  judge.AtLeast("1 GiB, worst distribution, of the read ceiling", 0.985,
                LevelKernel(results, kGiB));
  judge.AtLeast("256 MiB, worst distribution, of the read ceiling", 0.96,
                LevelKernel(results, 256 * kMiB));
  judge.AtLeast("16 MiB, worst distribution, of the read ceiling", 0.75,
                LevelKernel(results, 16 * kMiB));
  judge.AtLeast("batches of 4 KiB, worst distribution, of the bound", 0.75,
                LevelBatch(results, 4 * kKiB));
  judge.AtLeast("batches of 64 KiB, worst distribution, of the bound", 0.85,
                LevelBatch(results, 64 * kKiB));
  judge.AtLeast("batches of mixed sizes, worst distribution, of the bound", 0.85,
                LevelBatch(results, 0));
  judge.AtLeast("ours against CUB from 256 MiB on, worst cell, times", 1.0, AheadOfCub(results));
  judge.AtLeast("pinned memory to counts from 16 MiB on, of the host-to-device ceiling", 0.95,
                LargeFromHost(results));
  if (const HostRow* const lone = FindHost(results, 64 * kKiB, 1); lone != nullptr) {
    judge.AtMost("one payload of 64 KiB from pinned memory, null launches", 1.4,
                 lone->median_us / results.ceilings.null_launch_us);
  }
  if (const HostRow* const eight = FindHost(results, 64 * kKiB, 8); eight != nullptr) {
    judge.AtLeast("64 KiB from pinned memory over 8 lanes, of the host-to-device ceiling", 0.45,
                  eight->gbps / results.ceilings.host_to_device_gbps);
  }
  judge.AtMost("the selector's worst choice, of the 3 % or 1 us that it may be off", 1,
               WorstChoice(results));
  return judge.Take();
}

}  // namespace histogram::bench
