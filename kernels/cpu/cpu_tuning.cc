#include "kernels/cpu/cpu_tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/payload.h"
#include "kernels/tuning/tune.h"

namespace histogram::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// The payload sizes that are measured. A row ends at the geometric mean of its size and the next.
constexpr size_t kSizes[] = {
    32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, size_t{1} << 20};
constexpr size_t kBytesMax = size_t{1} << 20;
constexpr size_t kRunBytesMin = 8192;  // a run this long is far above the clock's resolution

// The mean time of `kernel` for a payload of `size` bytes, over the distributions.
uint64_t MeasureNs(const CpuKernel& kernel, const std::vector<uint8_t>& bytes, size_t size) {
  const size_t payloads =
      size > tuning::kStretchBytes ? 1 : std::max(tuning::kStretches, kRunBytesMin / size / 4 * 4);
  ValueCounts counts;
  const auto start = Clock::now();
  for (size_t i = 0; i < payloads; ++i) {
    const size_t within = i / tuning::kStretches * size % tuning::kStretchBytes;
    const size_t at = i % tuning::kStretches * tuning::kStretchBytes +
                      std::min(within, tuning::kStretchBytes - size % tuning::kStretchBytes);
    const Fragment fragment(bytes.data() + std::min(at, bytes.size() - size), size);
    counts.fill(0);
    kernel.count(Plan().data(), {&fragment, 1}, counts.data());
  }
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  return std::max<uint64_t>(1, static_cast<uint64_t>(elapsed.count()) / payloads);
}

std::vector<tuning::TuneCell> Cells() {
  std::vector<tuning::TuneCell> cells;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    const bool last = i + 1 == std::size(kSizes);
    const double end = last ? 0 : std::sqrt(static_cast<double>(kSizes[i] * kSizes[i + 1]));
    cells.push_back({.measured = {.payload_bytes = kSizes[i], .batch_bytes = kSizes[i]},
                     .payload_bytes_max = last ? UINT64_MAX : static_cast<uint64_t>(end),
                     .payloads_max = UINT32_MAX});
  }
  return cells;
}

}  // namespace

std::vector<KernelChoice> MeasureTable(absl::Span<const CpuKernel* const> kernels,
                                       uint32_t tune_ms_max) {
  const std::vector<uint8_t> bytes = tuning::MixedBytes(kBytesMax);
  const auto end = Clock::now() + std::chrono::milliseconds(tune_ms_max);
  std::vector<std::string> names;
  for (const CpuKernel* kernel : kernels) names.emplace_back(kernel->name);
  return tuning::Tune(
      kBackendName, names, Cells(),
      [end]() -> uint64_t {
        const std::chrono::nanoseconds left = end - Clock::now();
        return static_cast<uint64_t>(std::max<int64_t>(0, left.count()));
      },
      [&](size_t candidate, const Workload& workload) {
        return MeasureNs(*kernels[candidate], bytes, workload.payload_bytes);
      });
}

double MeasureTypedNsPerSample() {
  constexpr size_t kSamples = 16384;
  constexpr uint32_t kBins = 2048;
  constexpr int kRuns = 5;
  std::vector<float> samples(kSamples);
  for (size_t i = 0; i < kSamples; ++i) samples[i] = static_cast<float>(i * 7919 % kBins);
  const Plan plan = *Plan::Make(*Binning::Even(kBins, 0.0, kBins), SampleType::kF32);
  const Fragment fragment(reinterpret_cast<const uint8_t*>(samples.data()),
                          kSamples * sizeof(float));
  std::vector<uint64_t> counts(plan.counter_count());
  double least = std::numeric_limits<double>::max();
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    CountPayload(plan, {&fragment, 1}, counts);
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return least / kSamples;
}

}  // namespace histogram::cpu
