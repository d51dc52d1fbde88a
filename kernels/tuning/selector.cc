#include "kernels/tuning/selector.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace histogram::tuning {
namespace {

auto Limits(const KernelChoice& row) { return std::tie(row.payload_bytes_max, row.payloads_max); }

bool Serves(const KernelChoice& row, const Workload& workload) {
  return workload.payload_bytes <= row.payload_bytes_max &&
         workload.payload_count <= row.payloads_max;
}

}  // namespace

Selector::Selector(absl::Span<const std::string> kernels, std::vector<KernelChoice> rows,
                   std::string_view forced) {
  const auto find = [kernels](std::string_view name) {
    const auto found = std::find(kernels.begin(), kernels.end(), name);
    assert(found != kernels.end());
    return static_cast<size_t>(found - kernels.begin());
  };
  if (!forced.empty()) forced_ = find(forced);
  std::stable_sort(rows.begin(), rows.end(), [](const KernelChoice& a, const KernelChoice& b) {
    return Limits(a) < Limits(b);
  });
  for (KernelChoice& row : rows) {
    if (!forced.empty() && row.kernel != forced) continue;
    row_kernels_.push_back(find(row.kernel));
    rows_.push_back(std::move(row));
  }
}

std::optional<size_t> Selector::Choose(const Workload& workload) const {
  if (forced_.has_value()) return forced_;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (Serves(rows_[i], workload)) return row_kernels_[i];
  }
  return std::nullopt;
}

CostModel::CostModel(absl::Span<const KernelChoice> rows, const Assumption& assumption) {
  for (const KernelChoice& row : rows) {
    if (row.cost_ns == 0 || !(row.gigabytes_per_second > 0)) continue;
    const auto ns = static_cast<double>(row.cost_ns);
    const double bytes = ns * row.gigabytes_per_second;  // a GB/s is a byte a nanosecond
    points_.push_back({bytes, ns});
  }
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  // More bytes never cost less: where noise says so, the later measurement is left out.
  std::vector<Point> rising;
  for (const Point& point : points_) {
    if (rising.empty() || (point.bytes > rising.back().bytes && point.ns > rising.back().ns)) {
      rising.push_back(point);
    }
  }
  points_ = std::move(rising);
  if (points_.size() < 2) {
    const auto fixed = static_cast<double>(assumption.ns_per_payload);
    points_ = {{0, fixed}, {1 << 20, fixed + assumption.ns_per_byte * (1 << 20)}};
  } else if (points_.front().bytes > 0) {
    // Below the smallest measurement half of its cost is taken for fixed.
    points_.insert(points_.begin(), {0, points_.front().ns / 2});
  }
}

uint64_t CostModel::EstimateNs(const Workload& workload) const {
  const double payloads = std::max(1U, workload.payload_count);
  const double bytes = static_cast<double>(workload.batch_bytes) / payloads;
  // The line through the two points around `bytes`, or the last two.
  size_t right = 1;
  while (right + 1 < points_.size() && points_[right].bytes < bytes) ++right;
  const Point& a = points_[right - 1];
  const Point& b = points_[right];
  const double each = a.ns + (bytes - a.bytes) * (b.ns - a.ns) / (b.bytes - a.bytes);
  const double total = std::max(1.0, each * payloads);
  constexpr double kMost = 0x1p62;
  return static_cast<uint64_t>(std::min(total, kMost));
}

}  // namespace histogram::tuning
