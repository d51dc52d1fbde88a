// The rule from sample to bin, compiled to a table of the 256 byte values, and the fold that
// applies it.
//
// Semantics are numpy's: bin i is [edge_i, edge_i+1), the last bin also holds its upper edge. Even
// edges are i*step + lower with step = (upper-lower)/n in double, unfused, the last exactly upper
// (numpy.linspace). Values outside are counted as below, above or ignored; none is ever lost.
//
// A Binning is immutable after it is made: copy it, which is cheap, or share it between threads
// freely. Even edges are not stored, they are computed.
#ifndef HISTOGRAM_BINNING_H_
#define HISTOGRAM_BINNING_H_

#include <histogram/result.h>
#include <histogram/values.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace histogram {

class Binning {
 public:
  // Where a value goes that goes into no bin.
  static constexpr int32_t kBelow = -1;
  static constexpr int32_t kAbove = -2;
  static constexpr int32_t kIgnored = -3;

  // One bin per byte value: 256 bins over [0, 256], the same as Even(256, {}, {}).
  static Binning Identity();

  // Each factory fails with kBadBinning, or with kTooManyBins and the limit; the error's field is
  // the factory and its argument, "even.bin_count".
  // `bin_count` bins of equal width over [lower, upper]; both absent means [0, 256].
  static Result<Binning> Even(uint32_t bin_count, std::optional<double> lower = std::nullopt,
                              std::optional<double> upper = std::nullopt,
                              uint32_t bin_count_max = kBinCountMax);
  // Finite, strictly increasing edges, two or more; one bin fewer than edges.
  static Result<Binning> Edges(std::span<const double> edges,
                               uint32_t bin_count_max = kBinCountMax);
  static Result<Binning> Edges(std::initializer_list<double> edges,
                               uint32_t bin_count_max = kBinCountMax) {
    return Edges(std::span<const double>(edges.begin(), edges.size()), bin_count_max);
  }
  // `symbol_count` consecutive byte values from `first_symbol`, `symbols_per_bin` to a bin; the
  // last bin may hold fewer. Other bytes are ignored. first_symbol + symbol_count <= 256.
  static Result<Binning> Alphabet(uint32_t first_symbol, uint32_t symbol_count,
                                  uint32_t symbols_per_bin, uint32_t bin_count_max = kBinCountMax);
  // Any mapping: 256 entries; an entry >= bin_count means that byte is ignored.
  static Result<Binning> ByteTable(uint32_t bin_count, std::span<const uint32_t> bin_of_byte,
                                   uint32_t bin_count_max = kBinCountMax);

  uint32_t bin_count() const { return bin_count_; }
  // One bin per value: the counts of the values are the histogram.
  bool is_identity() const { return is_identity_; }
  // A bin's index, or kBelow, kAbove, kIgnored.
  int32_t bin_of(uint8_t value) const { return bin_of_[value]; }
  const std::array<int32_t, kByteValues>& table() const { return bin_of_; }
  // Whether bins are intervals of the number line (Even, Edges), so that edges exist.
  bool has_edges() const { return kind_ == Kind::kEven || kind_ == Kind::kEdges; }
  // The lower edge of bin i; the last bin's upper edge where i is bin_count().
  // REQUIRES: has_edges(), i <= bin_count().
  double edge(uint32_t i) const;
  // bin_count()+1 edges; empty where has_edges() is false.
  std::vector<double> ComputeEdges() const;

 private:
  enum class Kind : uint8_t { kEven, kEdges, kAlphabet, kByteTable };
  Binning() = default;

  Kind kind_ = Kind::kEven;
  uint32_t bin_count_ = 0;
  bool is_identity_ = false;
  double lower_ = 0, upper_ = 0, step_ = 0;           // kEven
  std::shared_ptr<const std::vector<double>> edges_;  // kEdges
  std::array<int32_t, kByteValues> bin_of_{};
};

// Counts of bins, and of the samples that went into none.
// samples == sum(counts) + below + above + ignored + nan.
struct Histogram {
  std::vector<uint64_t> counts;
  uint64_t samples = 0;
  uint64_t below = 0;
  uint64_t above = 0;
  uint64_t ignored = 0;
  uint64_t nan = 0;  // of typed samples (typed.h)

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// The histogram under `binning` of a payload whose values were counted.
Histogram Fold(const ValueCounts& values, const Binning& binning);
// The same into `out`, whose memory is reused.
void FoldInto(const ValueCounts& values, const Binning& binning, Histogram& out);

}  // namespace histogram

#endif  // HISTOGRAM_BINNING_H_
