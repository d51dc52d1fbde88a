// A binning compiled for a sample type: what counting typed samples needs.
//
// The edges decide, for every type: a sample is compared with the edges by value, exactly, as
// numpy.histogram(x, edges) does with float64 edges (integers of 64 bits too, where numpy rounds
// them). A plan holds, for each bin, the least sample that is in it, in the sample's own type. So
// all processors compare the same numbers and count the same.
//
//   histogram::Result<histogram::Binning> binning = histogram::Binning::Even(2048, -4.0, 4.0);
//   histogram::Result<histogram::Plan> plan =
//       histogram::Plan::Make(*binning, histogram::SampleType::kF32);
//
// A Plan is immutable after it is made, and copies share it: copy it, or share it between threads,
// freely. Making one takes about 10 ns a bin.
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
  // Fails with kBadBinning for a binning that has no edges (Alphabet, ByteTable): those are of
  // bytes, which CountValues and Fold count.
  static Result<Plan> Make(const Binning& binning, SampleType type);

  SampleType type() const;
  uint32_t bin_count() const;
  const Binning& binning() const;
  // How a sample's bin is found: "patterns" (each value of 8 or 16 bits is counted, then folded),
  // "guess" (a multiply-add that was proven when the plan was made) or "key" (a search that begins
  // at the sample's leading bits).
  std::string_view family() const;

  // For this library's other files.
  const internal::PlanData& data() const { return *data_; }

 private:
  explicit Plan(std::shared_ptr<const internal::PlanData> data) : data_(std::move(data)) {}
  std::shared_ptr<const internal::PlanData> data_;
};

}  // namespace histogram

#endif  // HISTOGRAM_PLAN_H_
