#include "python/src/quantiles.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/float_mode.h"
#include "kernels/order_statistics.h"
#include "kernels/sample.h"
#include "python/src/buffer.h"
#include "python/src/counting.h"

namespace histogram::python {
namespace {

// The samples at some ranks; NaN if any sample is.
template <typename T>
class Ranked {
 public:
  Ranked(const Buffer& samples, SampleType type, std::vector<uint64_t> ranks, uint32_t threads)
      : ranks_(std::move(ranks)) {
    ranks_.push_back(samples.size() / sizeof(T) - 1);  // that of a NaN
    std::sort(ranks_.begin(), ranks_.end());
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
    std::vector<uint64_t> keys;
    Unlocked(samples.size(),
             [&] { keys = internal::KeysAtRanks(samples.bytes(), type, ranks_, threads); });
    for (const uint64_t key : keys) {
      const uint64_t bits = internal::BitsOfKey(key, type);
      values_.push_back(internal::LoadBits<T>(reinterpret_cast<const std::byte*>(&bits)));
    }
  }

  T at(uint64_t rank) const {
    if (values_.back() != values_.back()) return values_.back();  // NaN
    return values_[static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) -
                                       ranks_.begin())];
  }

 private:
  std::vector<uint64_t> ranks_;
  std::vector<T> values_;
};

// Calls compute(T()) for the samples' type T. REQUIRES: it is neither f16 nor bf16.
template <typename Compute>
auto InType(SampleType type, const Compute& compute) {
  return internal::VisitSample(type, [&]<typename S>(S) {
    if constexpr (internal::kIsNarrowFloat<S>) {
      throw nb::value_error("type: must not be f16 or bf16");
      return compute(0.0F);
    } else {
      return compute(typename S::Bits());
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

std::optional<std::vector<double>> Quantiles(const nb::handle& samples, std::string_view type_name,
                                             const std::vector<double>& shares, bool weak,
                                             uint32_t threads) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return std::nullopt;
  const internal::FloatMode mode;
  const SampleType type = TypeNamed(type_name);
  return InType(type, [&]<typename T>(T) {
    using Weak = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const uint64_t last = from->size() / sizeof(T) - 1;
    const auto low_of = [last](double index) {
      return std::min(static_cast<uint64_t>(index), last);
    };
    std::vector<uint64_t> ranks;
    for (const double share : shares) {
      const uint64_t low = low_of(static_cast<double>(last) * share);
      ranks.insert(ranks.end(), {low, std::min(low + 1, last)});
    }
    const Ranked<T> ranked(*from, type, std::move(ranks), threads);
    std::vector<double> found;
    for (const double share : shares) {
      const double index = static_cast<double>(last) * share;
      const uint64_t low = low_of(index);
      const T below = ranked.at(low), above = ranked.at(std::min(low + 1, last));
      // At the last sample numpy counts from -1.
      const double rest = low == last ? index + 1 : index - static_cast<double>(low);
      found.push_back(weak ? Between<Weak>(below, above, rest)
                           : Between<double>(below, above, rest));
    }
    return found;
  });
}

std::optional<double> Median(const nb::handle& samples, std::string_view type_name,
                             uint32_t threads) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return std::nullopt;
  const internal::FloatMode mode;
  const SampleType type = TypeNamed(type_name);
  return InType(type, [&]<typename T>(T) -> double {
    using Mean = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const uint64_t count = from->size() / sizeof(T);
    const uint64_t low = (count - 1) / 2, high = count / 2;
    const Ranked<T> ranked(*from, type, {low, high}, threads);
    const auto middle = static_cast<Mean>(ranked.at(low));
    return low == high ? middle : (middle + static_cast<Mean>(ranked.at(high))) / 2;
  });
}

}  // namespace histogram::python
