#include "kernels/tuning/tune.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/status/status.h"

namespace histogram::tuning {
namespace {

// Candidates' indices in order of preference.
std::vector<size_t> ByPreference(absl::Span<const Candidate> candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [candidates](size_t a, size_t b) {
    return candidates[a].priority > candidates[b].priority;
  });
  return order;
}

double Bytes(const Workload& workload) {
  return std::max(1.0, static_cast<double>(workload.batch_bytes));
}

}  // namespace

std::vector<KernelChoice> Tune(const std::string& backend, absl::Span<const Candidate> candidates,
                               absl::Span<const TuneCell> cells, const TuneOptions& options,
                               Measure measure) {
  const std::vector<size_t> order = ByPreference(candidates);
  // The best that each candidate did so far, in nanoseconds a byte.
  std::vector<std::optional<double>> rates(candidates.size());
  uint64_t left_ns = options.budget_ns;
  bool cancelled = false;
  std::vector<KernelChoice> rows;
  for (size_t c = 0; c < cells.size() && !cancelled; ++c) {
    const TuneCell& cell = cells[c];
    const uint64_t budget_ns = left_ns / (cells.size() - c);
    std::vector<size_t> tried;
    std::optional<size_t> quickest;
    for (const size_t candidate : order) {
      const double rate = rates[candidate].value_or(0);
      if (rate * Bytes(cell.measured) <= static_cast<double>(budget_ns)) tried.push_back(candidate);
      if (!quickest.has_value() || rate < rates[*quickest].value_or(0)) quickest = candidate;
    }
    if (tried.empty() && quickest.has_value()) tried.push_back(*quickest);

    TunerOptions tuner_options = cell.tuner.value_or(options.tuner);
    tuner_options.budget_ns = budget_ns;
    Tuner tuner(tried.size(), tuner_options);
    while (const std::optional<size_t> next = tuner.Next()) {
      const size_t candidate = tried[*next];
      const absl::StatusOr<uint64_t> cost_ns = measure(candidate, cell.measured);
      if (absl::IsCancelled(cost_ns.status())) {
        cancelled = true;
        break;
      }
      if (!cost_ns.ok()) {
        tuner.Fail(*next);
        continue;
      }
      tuner.Report(*next, *cost_ns);
      left_ns -= std::min(left_ns, *cost_ns);
      const double rate = static_cast<double>(*cost_ns) / Bytes(cell.measured);
      rates[candidate] = std::min(rates[candidate].value_or(rate), rate);
    }

    const std::optional<size_t> best = tuner.best();
    if (!best.has_value()) continue;
    KernelChoice row;
    row.backend = backend;
    row.bin_count_max = kBinCountMax;
    row.payload_bytes_max = cell.payload_bytes_max;
    row.payloads_max = cell.payloads_max;
    row.kernel = candidates[tried[*best]].name;
    row.cost_ns = *tuner.cost_ns(*best);
    row.gigabytes_per_second = static_cast<double>(cell.measured.batch_bytes) /
                               static_cast<double>(std::max<uint64_t>(1, row.cost_ns));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace histogram::tuning
