#include "kernels/typed_payload.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <vector>

#include "kernels/cpu/typed.h"
#include "kernels/float_mode.h"
#include "kernels/plan_data.h"

namespace histogram {
namespace {

constexpr size_t kSampleBytesMax = 8;

// Cuts fragments into runs of whole samples. Copies a sample that lies in several fragments.
class Runs {
 public:
  Runs(size_t sample_bytes, std::span<const Fragment> fragments) : sample_bytes_(sample_bytes) {
    runs_.reserve(2 * fragments.size());
    joined_.reserve(fragments.size());  // runs point into it: it must not move
    for (const Fragment& fragment : fragments) Add(fragment);
    assert(filled_ == 0);
  }

  cpu::SampleRuns get() const { return runs_; }

 private:
  void Add(Fragment fragment) {
    if (filled_ > 0) fragment = fragment.subspan(Join(fragment));
    const size_t whole = fragment.size() / sample_bytes_;
    if (whole > 0) runs_.push_back({reinterpret_cast<const std::byte*>(fragment.data()), whole});
    const Fragment rest = fragment.subspan(whole * sample_bytes_);
    if (!rest.empty() && filled_ == 0) {
      joined_.emplace_back();
      Join(rest);
    }
  }

  // Completes the cut sample; returns the number of bytes taken from the fragment.
  size_t Join(Fragment fragment) {
    const size_t taken = std::min(sample_bytes_ - filled_, fragment.size());
    std::copy_n(reinterpret_cast<const std::byte*>(fragment.data()), taken,
                joined_.back().begin() + static_cast<ptrdiff_t>(filled_));
    filled_ += taken;
    if (filled_ == sample_bytes_) {
      runs_.push_back({joined_.back().data(), 1});
      filled_ = 0;
    }
    return taken;
  }

  const size_t sample_bytes_;
  std::vector<cpu::SampleRun> runs_;
  std::vector<std::array<std::byte, kSampleBytesMax>> joined_;
  size_t filled_ = 0;  // bytes that the sample being joined has so far
};

}  // namespace

void CountTypedPayload(const Plan& plan, std::span<const Fragment> fragments,
                       std::span<uint64_t> row) {
  std::fill(row.begin(), row.end(), 0);
  AddTypedPayload(plan, fragments, row);
}

void AddTypedPayload(const Plan& plan, std::span<const Fragment> fragments,
                     std::span<uint64_t> row) {
  assert(row.size() == internal::SlotCount(plan.bin_count()));
  const internal::FloatMode mode;
  const Runs runs(SampleBytes(plan.type()), fragments);
  const cpu::TypedKernel& kernel = cpu::FastestTyped(plan.data());
  if (cpu::SamplesOf(runs.get()) <= cpu::kSamplesMax) {
    return kernel.count(plan.data(), runs.get(), row.data());
  }
  for (auto [samples, count] : runs.get()) {
    while (count > 0) {
      const cpu::SampleRun part{samples, std::min(count, cpu::kSamplesMax)};
      kernel.count(plan.data(), {&part, 1}, row.data());
      samples += part.count * SampleBytes(plan.type());
      count -= part.count;
    }
  }
}

void AddPayloadTo(SampleStatistics& statistics, size_t sample_bytes,
                  std::span<const Fragment> fragments) {
  const Runs runs(sample_bytes, fragments);
  for (const auto& [samples, count] : runs.get()) {
    statistics.Add({samples, count * sample_bytes});
  }
}

}  // namespace histogram
