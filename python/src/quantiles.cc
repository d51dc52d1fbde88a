#include "python/src/quantiles.h"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/float_mode.h"
#include "kernels/order_statistics.h"
#include "kernels/sample.h"
#include "python/src/buffer.h"
#include "python/src/counting.h"

namespace histogram::python {
namespace {

// The samples at some ranks of rows of `length` samples; NaN where a sample of the row is.
template <typename T>
class Ranked {
 public:
  Ranked(const Buffer& samples, SampleType type, size_t length, std::vector<uint64_t> ranks,
         uint32_t threads)
      : ranks_(std::move(ranks)) {
    if (length == 0 || samples.size() % (length * sizeof(T)) != 0) {
      throw nb::value_error("length: must be that of whole rows");
    }
    rows_ = samples.size() / (length * sizeof(T));
    std::sort(ranks_.begin(), ranks_.end());
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
    values_.resize(ranks_.size() * rows_);
    Unlocked(samples.size(), [&] {
      internal::SamplesAtRanksOfRows(samples.bytes(), type, length, ranks_, threads,
                                     std::as_writable_bytes(std::span(values_)));
    });
  }

  // Of each row.
  std::span<const T> at(uint64_t rank) const {
    const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
    return std::span(values_).subspan(static_cast<size_t>(found) * rows_, rows_);
  }
  // `out`: has a place for each of so many results of each row.
  std::span<double> Places(const Buffer& out, size_t results) const {
    if (out.size() != results * rows_ * sizeof(double)) {
      throw nb::value_error("out: must have a place for each result of each row");
    }
    return out.as<double>();
  }

 private:
  std::vector<uint64_t> ranks_;
  size_t rows_ = 0;
  std::vector<T> values_;
};

// Calls compute(T()) for the samples' type T. REQUIRES: it is neither f16 nor bf16.
template <typename Compute>
void InType(SampleType type, const Compute& compute) {
  internal::VisitSample(type, [&]<typename S>(S) {
    if constexpr (internal::kIsNarrowFloat<S>) {
      throw nb::value_error("type: must not be f16 or bf16");
    } else {
      compute(typename S::Bits());
    }
  });
}

// numpy's interpolation: from the nearer sample, in the type Share. Differences of integers do not
// overflow.
template <typename Share, typename T>
double Between(T low, T high, double share) {
  Share difference;
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    difference = static_cast<Unsigned>(static_cast<Unsigned>(high) - static_cast<Unsigned>(low));
  } else {
    difference = high - low;
  }
  if (share >= 0.5) return static_cast<Share>(high) - difference * static_cast<Share>(1 - share);
  return static_cast<Share>(low) + difference * static_cast<Share>(share);
}

}  // namespace

bool Quantiles(const nb::handle& samples, std::string_view type_name, size_t length,
               const std::vector<double>& shares, bool weak, const nb::handle& out,
               uint32_t threads) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return false;
  const Buffer to = Buffer::Writable(out);
  const internal::FloatMode mode;
  const SampleType type = TypeNamed(type_name);
  InType(type, [&]<typename T>(T) {
    using Weak = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const uint64_t last = length - 1;
    const auto low_of = [last](double index) {
      return std::min(static_cast<uint64_t>(index), last);
    };
    std::vector<uint64_t> ranks;
    for (const double share : shares) {
      const uint64_t low = low_of(static_cast<double>(last) * share);
      ranks.insert(ranks.end(), {low, std::min(low + 1, last)});
    }
    const Ranked<T> ranked(*from, type, length, std::move(ranks), threads);
    double* place = ranked.Places(to, shares.size()).data();
    for (const double share : shares) {
      const double index = static_cast<double>(last) * share;
      const uint64_t low = low_of(index);
      const std::span<const T> below = ranked.at(low), above = ranked.at(std::min(low + 1, last));
      // At the last sample numpy counts from -1.
      const double rest = low == last ? index + 1 : index - static_cast<double>(low);
      for (size_t i = 0; i < below.size(); ++i) {
        *place++ = weak ? Between<Weak>(below[i], above[i], rest)
                        : Between<double>(below[i], above[i], rest);
      }
    }
  });
  return true;
}

bool Median(const nb::handle& samples, std::string_view type_name, size_t length,
            const nb::handle& out, uint32_t threads) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return false;
  const Buffer to = Buffer::Writable(out);
  const internal::FloatMode mode;
  const SampleType type = TypeNamed(type_name);
  InType(type, [&]<typename T>(T) {
    using Mean = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const uint64_t low = (length - 1) / 2, high = length / 2;
    const Ranked<T> ranked(*from, type, length, {low, high}, threads);
    const std::span<const T> below = ranked.at(low), above = ranked.at(high);
    double* place = ranked.Places(to, 1).data();
    for (size_t i = 0; i < below.size(); ++i) {
      const auto middle = static_cast<Mean>(below[i]);
      *place++ = low == high ? middle : (middle + static_cast<Mean>(above[i])) / 2;
    }
  });
  return true;
}

}  // namespace histogram::python
