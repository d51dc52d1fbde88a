// A Binning maps a sample to a bin. For bytes it holds a table of the 256 values. Fold applies it
// to counted bytes.
//
// Semantics are numpy's: bin i is [edge_i, edge_i+1), and the last bin also holds its upper edge.
// Even edges are those of numpy.linspace: i*step + lower in double, with step = (upper-lower)/n and
// no fused multiply-add. The last one is exactly upper. EvenIn takes numpy's narrower types
// instead. Each value in no bin is counted as below, above or ignored.
//
// A Binning is immutable, so threads may share it. A copy is cheap.
#ifndef HISTOGRAM_BINNING_H_
#define HISTOGRAM_BINNING_H_

#include <histogram/result.h>
#include <histogram/sample_type.h>
#include <histogram/values.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace histogram {

// The types of floats, kF16, kF32 or kF64, in which numpy.linspace computes even edges, and to
// which it rounds them.
struct EvenTypes {
  SampleType arithmetic = SampleType::kF64, edges = SampleType::kF64;
  friend bool operator==(const EvenTypes&, const EvenTypes&) = default;
};

namespace internal {

// How edges follow from their number. Plain data; `listed` belongs to the Binning.
struct EdgeRule {
  uint32_t bins = 0;
  double lower = 0, upper = 0, step = 0;  // of even edges
  const double* listed = nullptr;         // else all edges
  // Of even edges of narrow types: no edge lies farther from the one that doubles give. Else 0.
  double slack = 0;
  EvenTypes types = {};
  friend bool operator==(const EdgeRule&, const EdgeRule&) = default;

  // REQUIRES: i <= bins; the floating-point mode is the library's.
  double at(uint32_t i) const {
    if (listed != nullptr) return listed[i];
    if (i == bins) return upper;
    return slack > 0 ? Narrow(i) : i * step + lower;  // numpy.linspace
  }
  double Narrow(uint32_t i) const;
};

}  // namespace internal

class Binning {
 public:
  // What bin_of returns for a value in no bin.
  static constexpr int32_t kBelow = -1;
  static constexpr int32_t kAbove = -2;
  static constexpr int32_t kIgnored = -3;

  // One bin per byte value: 256 bins over [0, 256], the same as Even(256, {}, {}).
  static Binning Identity();

  // Each factory fails with kBadBinning, or with kTooManyBins and the limit. The error's field
  // names the factory and its argument: "even.bin_count".

  // `bin_count` bins of equal width over [lower, upper]; both absent: [0, 256].
  static Result<Binning> Even(uint32_t bin_count, std::optional<double> lower = std::nullopt,
                              std::optional<double> upper = std::nullopt,
                              uint32_t bin_count_max = kBinCountMax);
  // The same between numpy's edges of these types, for arrays of narrow floats.
  static Result<Binning> EvenIn(EvenTypes types, uint32_t bin_count, double lower, double upper,
                                uint32_t bin_count_max = kBinCountMax);
  // One bin between each two edges. There are two edges or more; all are finite and increase.
  static Result<Binning> Edges(std::span<const double> edges,
                               uint32_t bin_count_max = kBinCountMax);
  static Result<Binning> Edges(std::initializer_list<double> edges,
                               uint32_t bin_count_max = kBinCountMax) {
    return Edges(std::span<const double>(edges.begin(), edges.size()), bin_count_max);
  }
  // `symbol_count` consecutive byte values from `first_symbol`, `symbols_per_bin` to a bin. The
  // last bin may hold fewer. Other bytes are ignored. first_symbol + symbol_count <= 256.
  static Result<Binning> Alphabet(uint32_t first_symbol, uint32_t symbol_count,
                                  uint32_t symbols_per_bin, uint32_t bin_count_max = kBinCountMax);
  // Any mapping: 256 entries, the bin of each byte. A byte with an entry >= bin_count is ignored.
  static Result<Binning> ByteTable(uint32_t bin_count, std::span<const uint32_t> bin_of_byte,
                                   uint32_t bin_count_max = kBinCountMax);

  uint32_t bin_count() const { return rule_.bins; }
  // Whether bin i holds exactly byte i: then the value counts are the histogram.
  bool is_identity() const { return is_identity_; }
  // The bin's index, or kBelow, kAbove, kIgnored.
  int32_t bin_of(uint8_t value) const { return bin_of_[value]; }
  const std::array<int32_t, kByteValues>& table() const { return bin_of_; }
  // Whether bins are intervals between edges (Even, Edges).
  bool has_edges() const { return has_edges_; }
  // The lower edge of bin i; for i == bin_count() the upper edge of the last bin.
  // REQUIRES: has_edges(), i <= bin_count().
  double edge(uint32_t i) const;
  // All bin_count()+1 edges; empty if has_edges() is false.
  std::vector<double> ComputeEdges() const;
  // The same into `edges`, which has a place for each. REQUIRES: has_edges().
  void ComputeEdges(std::span<double> edges) const;
  void ComputeEdges(std::span<float> edges) const;

  // For this library only. Valid as long as a copy of this binning. REQUIRES: has_edges().
  const internal::EdgeRule& edge_rule() const { return rule_; }

 private:
  static Result<Binning> MakeEven(EvenTypes types, uint32_t bin_count, double from, double to);
  static Result<Binning> MakeListed(std::span<const double> edges);
  Binning() = default;
  void FillEvenTable();

  bool has_edges_ = true;
  bool is_identity_ = false;
  internal::EdgeRule rule_;                           // without edges only the number of bins
  std::shared_ptr<const std::vector<double>> edges_;  // that are listed
  std::array<int32_t, kByteValues> bin_of_{};
};

// The count of each bin, and of the samples in no bin.
// samples == sum(counts) + below + above + ignored + nan.
struct Histogram {
  std::vector<uint64_t> counts;
  uint64_t samples = 0;
  uint64_t below = 0;
  uint64_t above = 0;
  uint64_t ignored = 0;
  uint64_t nan = 0;  // typed samples only (typed.h)

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// The histogram under `binning` of bytes that were counted by value.
Histogram Fold(const ValueCounts& values, const Binning& binning);
// The same into `out`, whose memory is reused. Leaves out.nan as it is.
void FoldInto(std::span<const uint64_t, kByteValues> values, const Binning& binning,
              Histogram& out);

}  // namespace histogram

#endif  // HISTOGRAM_BINNING_H_
