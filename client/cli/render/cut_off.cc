#include "client/cli/render/cut_off.h"

#include <algorithm>
#include <functional>

namespace histogram::cli {
namespace {

constexpr size_t kCountsMin = 16;
constexpr size_t kPeakShare = 10;

}  // namespace

std::optional<double> CutOff(std::vector<uint64_t> counts, size_t peaks) {
  if (counts.size() < kCountsMin || peaks >= counts.size()) return std::nullopt;
  std::sort(counts.begin(), counts.end(), std::greater<>());
  const auto tallest = static_cast<double>(counts[0]);
  const auto others = static_cast<double>(counts[peaks]);
  if (others == 0 || tallest <= 3 * others) return std::nullopt;
  // No more peaks than need be: a broad hill beside the spikes stays whole.
  const auto highest_kept = std::find_if(counts.begin(), counts.end(), [&](uint64_t count) {
    return static_cast<double>(count) <= 2 * others;
  });
  return 1.1 * static_cast<double>(*highest_kept);
}

std::optional<double> CutOffOfPicture(const std::vector<uint64_t>& counts) {
  const auto empty = static_cast<size_t>(std::count(counts.begin(), counts.end(), uint64_t{0}));
  return CutOff(counts, std::max<size_t>(2, (counts.size() - empty) / kPeakShare));
}

}  // namespace histogram::cli
