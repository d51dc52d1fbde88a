#include "python/src/even_counter.h"

#include <histogram/plan.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/float_mode.h"
#include "python/src/buffer.h"
#include "python/src/counting.h"

namespace histogram::python {
namespace {

constexpr long kBinsMax = 65536;      // more go the general way
constexpr double kWholeMax = 0x1p53;  // up to here doubles hold all integers
// Of the ranges that are remembered.
constexpr size_t kRangesMax = 32;
constexpr uint64_t kAllBinsMax = uint64_t{1} << 17;

// Ends are bits: -0.0 and 0.0 make different edges.
struct Key {
  uint64_t first, last;
  uint32_t bins;
  SampleType type, arithmetic, edges;

  bool operator==(const Key&) const = default;
};

}  // namespace

EvenCounter::EvenCounter(std::string_view type, nb::str arithmetic, nb::str edges,
                         nb::callable later_edges)
    : type_(TypeNamed(type)),
      arithmetic_(std::move(arithmetic)),
      edges_(std::move(edges)),
      types_{.arithmetic = TypeNamed(arithmetic_.c_str()), .edges = TypeNamed(edges_.c_str())},
      later_edges_(std::move(later_edges)) {}

nb::object EvenCounter::Count(const nb::handle& samples, const nb::handle& first,
                              const nb::handle& last, const nb::handle& bins, uint32_t threads) {
  const internal::FloatMode mode;
  const double low = PyFloat_AsDouble(first.ptr()), high = PyFloat_AsDouble(last.ptr());
  const long number = PyLong_AsLong(bins.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return nb::none();
  }
  if (!(low < high) || number < 1 || number > kBinsMax) return nb::none();
  const bool floats = PyFloat_CheckExact(first.ptr()) && PyFloat_CheckExact(last.ptr());
  if (!floats && std::max(-low, high) >= kWholeMax) return nb::none();  // it may be rounded
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return nb::none();
  Bins its = Find(low, high, static_cast<uint32_t>(number));
  if (its.plan == nullptr) return nb::none();
  Counted found = python::Count(*its.plan, *from, threads);
  return nb::make_tuple(std::move(found.counters), found.below, found.above, found.nan,
                        std::move(its.edges));
}

EvenCounter::Bins EvenCounter::Find(double first, double last, uint32_t bins) const {
  // Of all counters, the oldest first. They are never destroyed: Python may end before that.
  static auto& ranges = *new std::deque<std::pair<Key, Bins>>;
  static uint64_t all_bins = 0;
  const Key key = {.first = std::bit_cast<uint64_t>(first),
                   .last = std::bit_cast<uint64_t>(last),
                   .bins = bins,
                   .type = type_,
                   .arithmetic = types_.arithmetic,
                   .edges = types_.edges};
  for (const auto& [earlier, its] : ranges) {
    if (earlier == key) return its;
  }
  const Result<Binning> binning =
      Binning::EvenIn(types_, bins, first, last, std::numeric_limits<uint32_t>::max());
  Bins its;
  if (binning.ok()) {
    its.plan = std::make_shared<PlanInUse>(*Plan::Direct(*binning, type_));
    its.edges = later_edges_(nb::make_tuple(first, last, arithmetic_, edges_), bins);
  }
  all_bins += bins;
  ranges.emplace_back(key, its);
  while (ranges.size() > kRangesMax || (all_bins > kAllBinsMax && ranges.size() > 1)) {
    all_bins -= ranges.front().first.bins;
    ranges.pop_front();
  }
  return its;
}

}  // namespace histogram::python
