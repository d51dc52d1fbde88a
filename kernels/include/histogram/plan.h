// A Plan is a binning compiled for a sample type. All counting goes by one.
//
// Kernels count samples into the plan's counters: one for each bin, then the samples below, above
// and NaN. A plan of bytes (OfBytes) has a counter for each of the 256 values; its bins are made of
// them at the end. So alphabets and tables of bytes are plans, too.
//
// Samples of every type are compared with the edges by exact value, as numpy.histogram(x, edges)
// does with float64 edges. Integers of 64 bits are compared exactly too; numpy rounds them. A plan
// with tables holds the least number in each bin, in the type that samples are compared in. So all
// processors compare the same numbers and get the same counts.
//
//   histogram::Result<histogram::Binning> binning = histogram::Binning::Even(2048, -4.0, 4.0);
//   histogram::Result<histogram::Plan> plan =
//       histogram::Plan::Make(*binning, histogram::SampleType::kF32);
//
// A Plan is immutable, so threads may share it. Copies share its data. Making one with tables takes
// some 5 to 110 ns a bin, and of 16 bits 0.06 to 0.3 ms in any case. One without tables (Direct)
// takes less than a microsecond, or some 2 ns for each edge of a list; but each sample takes more:
// a little between even edges, a search among all edges of others. Both count the same. For samples
// that come once, MakeFor chooses. One of bytes takes no time either.
#ifndef HISTOGRAM_PLAN_H_
#define HISTOGRAM_PLAN_H_

#include <histogram/binning.h>
#include <histogram/result.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace histogram {

namespace internal {
struct PlanData;
}  // namespace internal

class Plan {
 public:
  // Of bytes, with a bin for each value.
  Plan() = default;
  // Of bytes, for any binning.
  static Plan OfBytes(const Binning& binning);
  // Between edges. Fails with kBadBinning for a binning without edges (Alphabet, ByteTable).
  static Result<Plan> Make(const Binning& binning, SampleType type);
  // The same without tables: CPUs compute the edges next to a sample. The classes of
  // <histogram/cuda.h> make the tables.
  static Result<Plan> Direct(const Binning& binning, SampleType type);
  // The plan that counts `samples` samples soonest, its own making included: OfBytes for u8, else
  // Make if TablesPay, else Direct.
  static Result<Plan> MakeFor(const Binning& binning, SampleType type, uint64_t samples);
  // Whether so many samples repay tables. REQUIRES: binning().has_edges().
  bool TablesPay(uint64_t samples) const;

  SampleType type() const;
  uint32_t bin_count() const;
  const Binning& binning() const;
  // The number of counters that kernels fill.
  uint32_t counter_count() const;
  // Whether they are those of the 256 byte values.
  bool counts_values() const;
  // Whether the first bin_count() counters are the bins' counts.
  bool counts_bins() const { return !counts_values() || binning().is_identity(); }
  // How kernels find a sample's bin. "values": not at all; they count bytes. "patterns": they count
  // each value of 8 or 16 bits, then fold. "guess": a multiply-add, whose error Make has bounded.
  // "key": a search that begins at the sample's leading bits. "direct": a multiply-add or a search,
  // without tables.
  std::string_view family() const;
  bool has_tables() const;

  // For this library only. Plans with a bin for each byte share it.
  const internal::PlanData& data() const { return data_ != nullptr ? *data_ : OfEachByte(); }

 private:
  explicit Plan(std::shared_ptr<const internal::PlanData> data) : data_(std::move(data)) {}
  static Result<Plan> Compile(const Binning& binning, SampleType type, bool tables);
  static const internal::PlanData& OfEachByte();
  std::shared_ptr<const internal::PlanData> data_;  // null: OfEachByte
};

}  // namespace histogram

#endif  // HISTOGRAM_PLAN_H_
