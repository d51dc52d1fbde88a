#include "python/src/counting.h"

#include <histogram/tally.h>

#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace histogram::python {

SampleType TypeNamed(std::string_view name) {
  const std::optional<SampleType> type = ParseSampleType(name);
  if (!type.has_value())
    throw nb::value_error(("no sample type '" + std::string(name) + "'").c_str());
  return *type;
}

void CheckWhole(size_t bytes, SampleType type) {
  if (bytes % SampleBytes(type) != 0) {
    throw nb::value_error((std::to_string(bytes) +
                           " bytes are not a whole number of samples of type " +
                           std::string(NameOf(type)))
                              .c_str());
  }
}

void CheckSum(std::span<const uint64_t> counters, uint64_t samples) {
  const uint64_t sum = std::accumulate(counters.begin(), counters.end(), uint64_t{0});
  if (sum == samples) return;
  throw std::runtime_error("counts add up to " + std::to_string(sum) + ", not to the " +
                           std::to_string(samples) + " samples: a defect of this library");
}

int Counters::GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  std::vector<uint64_t>& counters = nb::cast<Counters&>(nb::handle(self)).counters;
  return PyBuffer_FillInfo(view, self, counters.data(),
                           static_cast<Py_ssize_t>(counters.size() * sizeof(uint64_t)),
                           /*readonly=*/1, flags);
}

Counted Count(PlanInUse& plan, const Buffer& samples, uint32_t threads) {
  CheckWhole(samples.size(), plan.type());
  Tally tally(PlanFor(plan, samples.size()));
  Unlocked(samples.size(), [&] { tally.Add(samples.bytes(), threads); });
  CheckSum(tally.counters(), tally.samples());
  const std::span<const uint64_t> outside = OutsideOf(tally.counters());
  const uint64_t below = outside[internal::kBelowSlot], above = outside[internal::kAboveSlot],
                 nan = outside[internal::kNanSlot];
  return {.counters = {std::move(tally).counters()}, .below = below, .above = above, .nan = nan};
}

}  // namespace histogram::python
