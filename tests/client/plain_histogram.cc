#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

std::vector<double> EdgesOf(const v1::Binning::Even& even) {
  const double lower = even.has_lower() ? even.lower() : 0;
  const double upper = even.has_upper() ? even.upper() : 256;
  std::vector<double> edges;
  for (uint32_t i = 0; i < even.bin_count(); ++i) {
    edges.push_back(lower + i * (upper - lower) / even.bin_count());
  }
  edges.push_back(upper);
  return edges;
}

// A byte's bin, or where else it goes.
struct Place {
  enum class Kind { kBin, kBelow, kAbove, kIgnored } kind = Kind::kIgnored;
  size_t bin = 0;
};

Place PlaceByEdges(const std::vector<double>& edges, double value) {
  if (value < edges.front()) return {Place::Kind::kBelow};
  if (value > edges.back()) return {Place::Kind::kAbove};
  const auto it = std::upper_bound(edges.begin(), edges.end(), value);
  const auto bin = static_cast<size_t>(it - edges.begin()) - 1;
  return {Place::Kind::kBin, std::min(bin, edges.size() - 2)};
}

Place PlaceOf(const v1::Binning& binning, const std::vector<double>& edges, uint32_t value) {
  switch (binning.kind_case()) {
    case v1::Binning::kEven:
    case v1::Binning::kEdges:
      return PlaceByEdges(edges, value);
    case v1::Binning::kAlphabet: {
      const auto& alphabet = binning.alphabet();
      if (value < alphabet.first_symbol()) return {};
      if (value >= alphabet.first_symbol() + alphabet.symbol_count()) return {};
      return {Place::Kind::kBin, (value - alphabet.first_symbol()) / alphabet.symbols_per_bin()};
    }
    case v1::Binning::kByteTable: {
      const uint32_t bin = binning.byte_table().bin_of_byte(static_cast<int>(value));
      if (bin >= binning.byte_table().bin_count()) return {};
      return {Place::Kind::kBin, bin};
    }
    case v1::Binning::KIND_NOT_SET:
      break;
  }
  return {Place::Kind::kBin, value};
}

size_t BinCount(const v1::Binning& binning, const std::vector<double>& edges) {
  if (!edges.empty()) return edges.size() - 1;
  if (binning.has_alphabet()) {
    const auto& alphabet = binning.alphabet();
    return (alphabet.symbol_count() + alphabet.symbols_per_bin() - 1) / alphabet.symbols_per_bin();
  }
  return binning.has_byte_table() ? binning.byte_table().bin_count() : 256;
}

std::optional<double> Otsu(const std::vector<double>& sorted) {
  std::optional<double> best;
  double best_variance = -1;
  for (size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i] == sorted[i + 1]) continue;
    double low = 0;
    double high = 0;
    for (size_t j = 0; j <= i; ++j) low += sorted[j];
    for (size_t j = i + 1; j < sorted.size(); ++j) high += sorted[j];
    const auto low_count = static_cast<double>(i + 1);
    const auto high_count = static_cast<double>(sorted.size() - i - 1);
    const double difference = low / low_count - high / high_count;
    const double variance = low_count * high_count * difference * difference;
    if (variance > best_variance) {
      best_variance = variance;
      best = sorted[i];
    }
  }
  return best;
}

void FillStatistics(const v1::Spec& spec, std::vector<double> values, v1::Histogram& histogram) {
  auto& statistics = *histogram.mutable_statistics();
  double entropy = 0;
  for (const uint64_t count : histogram.counts()) {
    const double share = static_cast<double>(count) / static_cast<double>(values.size());
    if (count > 0) entropy -= share * std::log2(share);
  }
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
  };
  statistics.set_minimum(values.front());
  statistics.set_maximum(values.back());
  statistics.set_mean(mean);
  statistics.set_standard_deviation(std::sqrt(squares / static_cast<double>(values.size())));
  statistics.set_median(quantile(0.5));
  statistics.set_mode(values.front());
  statistics.set_entropy_bits(entropy);
  // The naive threshold is slow; tests that look at it use small pictures.
  if (values.size() <= 4096) {
    if (const auto otsu = Otsu(values); otsu.has_value()) statistics.set_otsu_threshold(*otsu);
  }
  for (const double q : spec.quantiles()) statistics.add_quantiles(quantile(q));
}

}  // namespace

v1::Histogram PlainHistogram(const v1::Spec& spec, absl::string_view bytes) {
  const v1::Binning& binning = spec.binning();
  std::vector<double> edges;
  if (binning.has_even()) edges = EdgesOf(binning.even());
  if (binning.has_edges()) edges = {binning.edges().edges().begin(), binning.edges().edges().end()};
  v1::Histogram histogram;
  histogram.mutable_counts()->Resize(static_cast<int>(BinCount(binning, edges)), 0);
  histogram.set_samples(bytes.size());
  uint64_t times[256] = {};
  for (const char c : bytes) ++times[static_cast<unsigned char>(c)];
  const bool statistics = spec.statistics() || spec.quantiles_size() > 0;
  std::vector<double> counted;
  for (uint32_t value = 0; value < 256; ++value) {
    if (times[value] == 0) continue;
    const Place place = PlaceOf(binning, edges, value);
    switch (place.kind) {
      case Place::Kind::kBin: {
        const int bin = static_cast<int>(place.bin);
        histogram.set_counts(bin, histogram.counts(bin) + times[value]);
        if (statistics) counted.insert(counted.end(), times[value], value);
        break;
      }
      case Place::Kind::kBelow:
        histogram.set_below(histogram.below() + times[value]);
        break;
      case Place::Kind::kAbove:
        histogram.set_above(histogram.above() + times[value]);
        break;
      case Place::Kind::kIgnored:
        histogram.set_ignored(histogram.ignored() + times[value]);
        break;
    }
  }
  if (statistics) FillStatistics(spec, counted, histogram);
  if (spec.edges()) histogram.mutable_edges()->Add(edges.begin(), edges.end());
  if (spec.omit_counts()) histogram.clear_counts();
  return histogram;
}

}  // namespace histogram::client
