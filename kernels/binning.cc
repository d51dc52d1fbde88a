#include <histogram/binning.h>
#include <histogram/number_text.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/float_mode.h"
#include "kernels/linspace.h"

namespace histogram {
namespace {

// Concatenates numbers and texts.
template <typename... Parts>
std::string Join(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += NumberText(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

Error Bad(std::string field, std::string_view message, uint64_t limit = 0) {
  std::string sentence = Join(field, " ", message);
  return {.code = ErrorCode::kBadBinning,
          .message = std::move(sentence),
          .field = std::move(field),
          .limit = limit};
}

// Checks that `count` is at least 1 and at most the limit. `what` is the verb of the message:
// `field` "asks for", or "makes", so many bins.
std::optional<Error> CheckBinCount(const char* field, uint64_t count, uint32_t bin_count_max,
                                   std::string_view what) {
  if (count == 0) return Bad(field, "is 0; at least 1 bin is needed", 1);
  const uint32_t limit = std::min(bin_count_max, kBinCountMax);
  if (count <= limit) return std::nullopt;
  return Error{.code = ErrorCode::kTooManyBins,
               .message = Join(field, " ", what, " ", count, " bins; the limit is ", limit),
               .field = field,
               .limit = limit};
}

// Whether each edge of even bins is greater than the previous one.
bool StrictlyIncreasing(const internal::EdgeRule& even) {
  const double lower = even.lower, upper = even.upper, step = even.step;
  // Rounding moves an edge by at most a few units in the last place of the larger end. A step of
  // sixteen such units is large enough; a smaller one needs a check of every edge.
  const double largest = std::max(std::fabs(lower), std::fabs(upper));
  const double ulp = std::nextafter(largest, std::numeric_limits<double>::infinity()) - largest;
  if (step >= 16 * ulp && step >= std::numeric_limits<double>::min()) return true;
  for (uint32_t i = 0; i < even.bins; ++i) {
    if (!(even.at(i) < even.at(i + 1))) return false;
  }
  return true;
}

// Like std::isfinite, but -ffast-math in a user's flags does not disable it.
bool Finite(double value) { return std::fabs(value) <= std::numeric_limits<double>::max(); }

std::optional<Error> CheckRange(double from, double to) {
  if (!Finite(from)) return Bad("even.lower", Join("is ", from, "; it must be finite"));
  if (!Finite(to)) return Bad("even.upper", Join("is ", to, "; it must be finite"));
  if (!(from < to)) {
    return Bad("even.upper", Join("is ", to, "; it must be greater than lower, ", from));
  }
  if (!Finite(to - from)) {
    return Bad("even.upper",
               Join("is ", to, "; its distance from lower, ", from, ", overflows a double"));
  }
  return std::nullopt;
}

}  // namespace

Binning Binning::Identity() {
  Binning binning;
  binning.rule_ = {.bins = kByteValues, .lower = 0, .upper = kByteValues, .step = 1};
  binning.is_identity_ = true;
  for (uint32_t v = 0; v < kByteValues; ++v) binning.bin_of_[v] = static_cast<int32_t>(v);
  return binning;
}

Result<Binning> Binning::Even(uint32_t bin_count, std::optional<double> lower,
                              std::optional<double> upper, uint32_t bin_count_max) {
  if (lower.has_value() == upper.has_value()) {
    return EvenIn({}, bin_count, lower.value_or(0), upper.value_or(kByteValues), bin_count_max);
  }
  if (std::optional<Error> error =
          CheckBinCount("even.bin_count", bin_count, bin_count_max, "asks for")) {
    return *std::move(error);
  }
  return lower.has_value()
             ? Bad("even.upper", Join("is absent but lower is ", *lower, "; give both or neither"))
             : Bad("even.lower", Join("is absent but upper is ", *upper, "; give both or neither"));
}

Result<Binning> Binning::EvenIn(EvenTypes types, uint32_t bin_count, double lower, double upper,
                                uint32_t bin_count_max) {
  if (std::optional<Error> error =
          CheckBinCount("even.bin_count", bin_count, bin_count_max, "asks for")) {
    return *std::move(error);
  }
  return internal::InFloatMode([&] { return MakeEven(types, bin_count, lower, upper); });
}

Result<Binning> Binning::MakeEven(EvenTypes types, uint32_t bin_count, double from, double to) {
  if (std::optional<Error> error = CheckRange(from, to)) return *std::move(error);
  const bool wide = types == EvenTypes();
  if (wide && bin_count == kByteValues && from == 0 && to == kByteValues) return Identity();
  Binning binning;
  binning.rule_ = internal::Linspace(types, bin_count, from, to);
  if (wide && !StrictlyIncreasing(binning.rule_)) {
    return Bad("even.bin_count", Join("is ", bin_count, ": too many bins for [", from, ", ", to,
                                      "], where neighbouring edges round to the same double"));
  }
  if (wide || binning.rule_.slack > 0) {
    binning.FillEvenTable();
    return binning;
  }
  std::vector<double> edges(bin_count + size_t{1});
  internal::FillEdges(binning.rule_, std::span<double>(edges));
  Result<Binning> listed = MakeListed(edges);
  if (listed.ok()) return listed;
  return Bad("even.bin_count",
             Join("is ", bin_count, ": not all edges between ", from, " and ", to,
                  " are finite and increase as numbers of type ", NameOf(types.edges)));
}

void Binning::FillEvenTable() {
  const internal::EdgeRule& edges = rule_;
  const double first = edges.at(0), per_unit = 1 / edges.step, last = edges.bins - 1;
  uint32_t v = 0;
  for (; v < kByteValues && v < first; ++v) bin_of_[v] = kBelow;
  for (; v < kByteValues && v <= edges.upper; ++v) {
    // Guess, then correct by comparison with the edges. The guess for v == first may be NaN.
    auto index = static_cast<uint32_t>(std::min(std::max(0.0, (v - first) * per_unit), last));
    while (index > 0 && v < edges.at(index)) --index;
    while (index + 1 < edges.bins && v >= edges.at(index + 1)) ++index;
    bin_of_[v] = static_cast<int32_t>(index);
  }
  std::fill(bin_of_.begin() + v, bin_of_.end(), kAbove);
}

Result<Binning> Binning::Edges(std::span<const double> edges, uint32_t bin_count_max) {
  if (edges.size() < 2) {
    return Bad("edges.edges", Join("has ", edges.size(), " edges; at least 2 are needed"), 2);
  }
  if (std::optional<Error> error =
          CheckBinCount("edges.edges", edges.size() - 1, bin_count_max, "makes")) {
    return *std::move(error);
  }
  const internal::FloatMode mode;
  return MakeListed(edges);
}

Result<Binning> Binning::MakeListed(std::span<const double> edges) {
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!Finite(edges[i])) {
      return Bad(Join("edges.edges[", i, "]"), Join("is ", edges[i], "; it must be finite"));
    }
    if (i > 0 && !(edges[i - 1] < edges[i])) {
      return Bad(
          Join("edges.edges[", i, "]"),
          Join("is ", edges[i], "; it must be greater than the edge before, ", edges[i - 1]));
    }
  }

  Binning binning;
  binning.rule_.bins = static_cast<uint32_t>(edges.size() - 1);
  binning.edges_ = std::make_shared<const std::vector<double>>(edges.begin(), edges.end());
  binning.rule_.listed = binning.edges_->data();
  auto above = edges.begin();  // the first edge above v; v ascends, so it only advances
  for (uint32_t v = 0; v < kByteValues; ++v) {
    int32_t& bin = binning.bin_of_[v];
    above = std::upper_bound(above, edges.end(), static_cast<double>(v));
    if (above == edges.begin()) {
      bin = kBelow;
    } else if (above != edges.end()) {
      bin = static_cast<int32_t>(above - edges.begin() - 1);
    } else {
      bin = v == edges.back() ? static_cast<int32_t>(binning.rule_.bins - 1) : kAbove;
    }
  }
  return binning;
}

Result<Binning> Binning::Alphabet(uint32_t first_symbol, uint32_t symbol_count,
                                  uint32_t symbols_per_bin, uint32_t bin_count_max) {
  if (first_symbol >= kByteValues) {
    return Bad("alphabet.first_symbol", Join("is ", first_symbol, "; the limit is 255"), 255);
  }
  if (symbol_count == 0) return Bad("alphabet.symbol_count", "is 0; at least 1 is needed", 1);
  const uint32_t symbol_count_max = kByteValues - first_symbol;
  if (symbol_count > symbol_count_max) {
    return Bad("alphabet.symbol_count",
               Join("is ", symbol_count, "; from symbol ", first_symbol, " the limit is ",
                    symbol_count_max),
               symbol_count_max);
  }
  if (symbols_per_bin == 0) return Bad("alphabet.symbols_per_bin", "is 0; at least 1 is needed", 1);
  const uint32_t bin_count = (symbol_count - 1) / symbols_per_bin + 1;
  if (std::optional<Error> error =
          CheckBinCount("alphabet.symbols_per_bin", bin_count, bin_count_max, "makes")) {
    return *std::move(error);
  }

  Binning binning;
  binning.has_edges_ = false;
  binning.rule_.bins = bin_count;
  binning.bin_of_.fill(kIgnored);
  for (uint32_t i = 0; i < symbol_count; ++i) {
    binning.bin_of_[first_symbol + i] = static_cast<int32_t>(i / symbols_per_bin);
  }
  return binning;
}

Result<Binning> Binning::ByteTable(uint32_t bin_count, std::span<const uint32_t> bin_of_byte,
                                   uint32_t bin_count_max) {
  if (std::optional<Error> error =
          CheckBinCount("byte_table.bin_count", bin_count, bin_count_max, "asks for")) {
    return *std::move(error);
  }
  if (bin_of_byte.size() != kByteValues) {
    return Bad("byte_table.bin_of_byte",
               Join("has ", bin_of_byte.size(), " entries; it must have 256"), kByteValues);
  }
  Binning binning;
  binning.has_edges_ = false;
  binning.rule_.bins = bin_count;
  for (uint32_t v = 0; v < kByteValues; ++v) {
    const uint32_t bin = bin_of_byte[v];
    binning.bin_of_[v] = bin < bin_count ? static_cast<int32_t>(bin) : kIgnored;
  }
  return binning;
}

double Binning::edge(uint32_t i) const {
  return internal::InFloatMode([&] { return rule_.at(i); });
}

std::vector<double> Binning::ComputeEdges() const {
  if (!has_edges()) return {};
  std::vector<double> edges(bin_count() + size_t{1});
  ComputeEdges(edges);
  return edges;
}

void Binning::ComputeEdges(std::span<double> edges) const {
  const internal::FloatMode mode;
  internal::FillEdges(rule_, edges);
}

void Binning::ComputeEdges(std::span<float> edges) const {
  const internal::FloatMode mode;
  internal::FillEdges(rule_, edges);
}

Histogram Fold(const ValueCounts& values, const Binning& binning) {
  Histogram histogram;
  FoldInto(values, binning, histogram);
  return histogram;
}

void FoldInto(std::span<const uint64_t, kByteValues> values, const Binning& binning,
              Histogram& out) {
  out.samples = std::accumulate(values.begin(), values.end(), uint64_t{0});
  if (binning.is_identity()) {  // by far the most frequent binning: nothing to fold
    out.counts.assign(values.begin(), values.end());
    out.below = out.above = out.ignored = 0;
    return;
  }
  out.counts.assign(binning.bin_count(), 0);
  static_assert(Binning::kBelow == -1 && Binning::kAbove == -2 && Binning::kIgnored == -3);
  std::array<uint64_t, 4> outside{};  // indexed by -kBelow, -kAbove, -kIgnored
  const std::array<int32_t, kByteValues>& table = binning.table();
  // Mostly values of one bin lie together: additions to one counter would wait for each other.
  for (uint32_t v = 0; v < kByteValues;) {
    const int32_t bin = table[v];
    uint64_t sum = values[v];
    while (++v < kByteValues && table[v] == bin) sum += values[v];
    uint64_t& cell =
        bin >= 0 ? out.counts[static_cast<size_t>(bin)] : outside[static_cast<size_t>(-bin)];
    cell += sum;
  }
  out.below = outside[1];
  out.above = outside[2];
  out.ignored = outside[3];
}

}  // namespace histogram
