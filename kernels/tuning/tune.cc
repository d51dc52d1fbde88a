#include "kernels/tuning/tune.h"

#include <algorithm>
#include <limits>

namespace histogram::tuning {
namespace {

// A candidate, and what is known of it.
struct Tried {
  size_t candidate;
  double ns_per_byte = 0;               // the best that it did in any cell
  std::vector<uint64_t> times_ns = {};  // in this cell, ascending
  bool out = false;                     // of this cell

  double CostNs() const {
    if (times_ns.empty()) return std::numeric_limits<double>::infinity();
    return static_cast<double>(times_ns[(times_ns.size() - 1) / 4]);
  }
};

double LeastNs(const std::vector<Tried>& all) {
  const auto cheaper = [](const Tried& a, const Tried& b) { return a.CostNs() < b.CostNs(); };
  return std::min_element(all.begin(), all.end(), cheaper)->CostNs();
}

// Whether the candidate costs more than the least of all by so much that further measurements will
// not change it: by 15 times after one, by a quarter after eight.
bool IsHopeless(const Tried& tried, double least_ns) {
  const auto runs = static_cast<double>(tried.times_ns.size());
  return runs > 0 && tried.CostNs() > least_ns * (1 + 15 / (runs * runs));
}

// Measures the candidates of a cell until so much time is left.
void MeasureCell(const TuneCell& cell, uint64_t until_ns, TimeLeft left_ns, Measure measure,
                 std::vector<Tried>& all) {
  const double bytes = std::max(1.0, static_cast<double>(cell.measured.batch_bytes));
  const double part_ns = static_cast<double>(left_ns()) - static_cast<double>(until_ns);
  for (Tried& tried : all) {
    tried.times_ns.clear();
    tried.out = tried.ns_per_byte * bytes > part_ns;
  }
  for (uint32_t run = 0; run < cell.runs; ++run) {
    for (Tried& tried : all) {
      const uint64_t left = left_ns();
      if (left == 0) return;
      const bool late = left <= until_ns && !tried.times_ns.empty();
      if (tried.out || late || IsHopeless(tried, LeastNs(all))) continue;
      const absl::StatusOr<uint64_t> ns = measure(tried.candidate, cell.measured);
      tried.out = !ns.ok();
      if (tried.out) {
        tried.times_ns.clear();
        continue;
      }
      tried.times_ns.insert(std::upper_bound(tried.times_ns.begin(), tried.times_ns.end(), *ns),
                            *ns);
      const double rate = static_cast<double>(*ns) / bytes;
      tried.ns_per_byte = tried.ns_per_byte > 0 ? std::min(tried.ns_per_byte, rate) : rate;
    }
  }
}

}  // namespace

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

std::vector<KernelChoice> Tune(const std::string& backend, absl::Span<const std::string> candidates,
                               absl::Span<const TuneCell> cells, TimeLeft left_ns,
                               Measure measure) {
  std::vector<KernelChoice> rows;
  if (candidates.empty()) return rows;
  std::vector<Tried> all;  // the preferred one first
  for (size_t i = candidates.size(); i > 0; --i) all.push_back({.candidate = i - 1});
  for (size_t c = 0; c < cells.size(); ++c) {
    const TuneCell& cell = cells[c];
    const uint64_t left = left_ns();
    MeasureCell(cell, left - left / (cells.size() - c), left_ns, measure, all);
    const double bound_ns = LeastNs(all) * (1 + cell.margin);
    const auto best = std::find_if(all.begin(), all.end(),
                                   [&](const Tried& tried) { return tried.CostNs() <= bound_ns; });
    if (best->times_ns.empty()) continue;  // as all are
    const double ns = std::max(1.0, best->CostNs());
    rows.push_back({.backend = backend,
                    .bin_count_max = kBinCountMax,
                    .payload_bytes_max = cell.payload_bytes_max,
                    .payloads_max = cell.payloads_max,
                    .kernel = candidates[best->candidate],
                    .cost_ns = static_cast<uint64_t>(best->CostNs()),
                    .gigabytes_per_second = static_cast<double>(cell.measured.batch_bytes) / ns});
  }
  return rows;
}

}  // namespace histogram::tuning
