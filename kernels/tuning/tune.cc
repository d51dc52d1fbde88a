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

// What is known of the candidates of a search.
class Costs {
 public:
  Costs(size_t candidates, const TunerOptions& options)
      : of_(candidates), alive_(candidates, true), options_(options) {}

  size_t size() const { return of_.size(); }
  bool alive(size_t i) const { return alive_[i]; }
  bool known(size_t i) const { return !of_[i].empty(); }
  ptrdiff_t CountAlive() const { return std::count(alive_.begin(), alive_.end(), true); }

  void Add(size_t i, uint64_t cost_ns) {
    of_[i].insert(std::upper_bound(of_[i].begin(), of_[i].end(), cost_ns), cost_ns);
    const Cheapest best = *Best();
    const double factor = std::max(1.0, options_.hopeless_factor);
    for (size_t k = 0; k < size(); ++k) {
      if (!known(k) || k == best.candidate) continue;
      const double bound =
          static_cast<double>(best.cost_ns) * (of_[k].size() == 1 ? factor * factor : factor);
      if (static_cast<double>(Of(k)) > bound) alive_[k] = false;
    }
  }

  void Fail(size_t i) {
    of_[i].clear();
    alive_[i] = false;
  }

  // Keeps the better half, at least two, and the preferred one. REQUIRES: all alive are known.
  void Halve() {
    std::vector<size_t> order;
    for (size_t i = 0; i < size(); ++i) {
      if (alive_[i]) order.push_back(i);
    }
    const size_t kept = std::max<size_t>(2, (order.size() + 1) / 2), preferred = order.front();
    std::stable_sort(order.begin(), order.end(),
                     [this](size_t a, size_t b) { return Of(a) < Of(b); });
    for (size_t i = kept; i < order.size(); ++i) alive_[order[i]] = order[i] == preferred;
  }

  // The most preferred among those that are as good as the cheapest.
  std::optional<Cheapest> Best() const {
    std::optional<uint64_t> least;
    for (size_t i = 0; i < size(); ++i) {
      if (known(i)) least = std::min(least.value_or(UINT64_MAX), Of(i));
    }
    if (!least.has_value()) return std::nullopt;
    const double bound = static_cast<double>(*least) * (1 + std::max(0.0, options_.margin));
    size_t i = 0;
    while (!known(i) || static_cast<double>(Of(i)) > bound) ++i;
    return Cheapest{.candidate = i, .cost_ns = Of(i)};
  }

 private:
  uint64_t Of(size_t i) const { return of_[i][(of_[i].size() - 1) / 4]; }

  std::vector<std::vector<uint64_t>> of_;  // ascending; none once it failed
  std::vector<bool> alive_;
  const TunerOptions& options_;
};

}  // namespace

std::optional<Cheapest> FindCheapest(size_t candidates, const TunerOptions& options,
                                     MeasureOne measure) {
  Costs costs(candidates, options);
  uint64_t spent_ns = 0;
  for (uint32_t round = std::max(1U, options.first_round);; round *= 2) {
    round = std::min(round, std::max(options.first_round, options.last_round));
    // They take turns, so that a disturbance hits all alike.
    for (uint32_t n = 0; n < round; ++n) {
      for (size_t i = 0; i < candidates; ++i) {
        if (!costs.alive(i) || (spent_ns >= options.budget_ns && costs.known(i))) continue;
        const absl::StatusOr<uint64_t> cost_ns = measure(i);
        if (absl::IsCancelled(cost_ns.status())) return costs.Best();
        if (!cost_ns.ok()) {
          costs.Fail(i);
          continue;
        }
        costs.Add(i, *cost_ns);
        spent_ns += std::min(*cost_ns, UINT64_MAX - spent_ns);
      }
    }
    const ptrdiff_t alive = costs.CountAlive();
    if (spent_ns >= options.budget_ns || alive <= 1 ||
        (alive <= 3 && round >= options.last_round)) {
      return costs.Best();
    }
    costs.Halve();
  }
}

std::vector<uint8_t> MixedBytes(size_t bytes) {
  std::vector<uint8_t> mixed(bytes);
  uint64_t random = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < bytes; ++i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const auto byte = static_cast<uint8_t>(random >> 32);
    const uint8_t values[kStretches] = {byte, static_cast<uint8_t>('a' + byte % 26),
                                        static_cast<uint8_t>(100 + i % 2), 0};
    mixed[i] = values[i / kStretchBytes % kStretches];
  }
  return mixed;
}

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
    const auto measure_one = [&](size_t tried_index) {
      const size_t candidate = tried[tried_index];
      const absl::StatusOr<uint64_t> cost_ns = measure(candidate, cell.measured);
      cancelled = absl::IsCancelled(cost_ns.status());
      if (!cost_ns.ok()) return cost_ns;
      left_ns -= std::min(left_ns, *cost_ns);
      const double rate = static_cast<double>(*cost_ns) / Bytes(cell.measured);
      rates[candidate] = std::min(rates[candidate].value_or(rate), rate);
      return cost_ns;
    };
    const std::optional<Cheapest> best = FindCheapest(tried.size(), tuner_options, measure_one);
    if (!best.has_value()) continue;
    KernelChoice row;
    row.backend = backend;
    row.bin_count_max = kBinCountMax;
    row.payload_bytes_max = cell.payload_bytes_max;
    row.payloads_max = cell.payloads_max;
    row.kernel = candidates[tried[best->candidate]].name;
    row.cost_ns = best->cost_ns;
    row.gigabytes_per_second = static_cast<double>(cell.measured.batch_bytes) /
                               static_cast<double>(std::max<uint64_t>(1, row.cost_ns));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace histogram::tuning
