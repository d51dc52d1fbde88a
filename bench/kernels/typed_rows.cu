#include <histogram/cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cuda/std/array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kernels/typed_data.cuh"
#include "bench/kernels/typed_rows.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/order_statistics.h"

namespace histogram::bench {
namespace {

constexpr int kRuns = 7;
// Those that bytes show: uniform, normal, constant, two, sixteen, sorted.
constexpr int kByteDistributions = 6;

cuda::DeviceBuffer Buffer(uint64_t bytes) {
  absl::StatusOr<cuda::DeviceBuffer> made = cuda::DeviceBuffer::Make(bytes);
  Check(made.status());
  return *std::move(made);
}

template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) Die(result.error().message);
  return *std::move(result);
}
void Take(const std::optional<Error>& error) {
  if (error.has_value()) Die(error->message);
}

Plan BytePlan() { return *Plan::Make(*Binning::Even(256, 0.0, 256.0), SampleType::kU8); }

// Byte i is in row i / window * channels + i % channels.
__global__ void PlainRowsKernel(const uint8_t* bytes, uint64_t count, uint64_t window,
                                uint32_t channels, uint32_t* counts) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    atomicAdd(&counts[(i / window * channels + i % channels) * 256 + bytes[i]], 1U);
  }
}
__global__ void DifferencesKernel(const uint32_t* a, const uint32_t* b, uint64_t count,
                                  unsigned long long* differences) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (a[i] != b[i]) atomicAdd(differences, 1ULL);
  }
}
// Entropies from counts of windows, in double.
__global__ void EntropyErrorKernel(const uint32_t* counts, const float* entropies, uint64_t windows,
                                   double bytes, unsigned long long* differences) {
  const uint64_t window = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (window >= windows) return;
  double entropy = log2(bytes);
  for (uint32_t v = 0; v < 256; ++v) {
    const double count = counts[window * 256 + v];
    if (count > 0) entropy -= count * log2(count) / bytes;
  }
  if (!(fabs(entropy - entropies[window]) <= 1e-5)) atomicAdd(differences, 1ULL);
}

uint64_t Differences(Harness& harness, const cuda::DeviceBuffer& differences) {
  uint64_t count = 0;
  CheckCuda(cudaMemcpyAsync(&count, differences.get(), 8, cudaMemcpyDeviceToHost, harness.stream()),
            "differences");
  CheckCuda(cudaStreamSynchronize(harness.stream()), "differences");
  return count;
}

uint64_t CompareRows(Harness& harness, uint64_t bytes, uint64_t window, uint32_t channels,
                     uint64_t rows, const uint32_t* counts, const cuda::DeviceBuffer& expected) {
  const cuda::DeviceBuffer differences = Buffer(8);
  CheckCuda(cudaMemsetAsync(expected.get(), 0, rows * 1024, harness.stream()), "clear");
  PlainRowsKernel<<<1024, 256, 0, harness.stream()>>>(harness.input(), bytes, window, channels,
                                                      expected.get<uint32_t>());
  DifferencesKernel<<<1024, 256, 0, harness.stream()>>>(
      counts, expected.get<uint32_t>(), rows * 256, differences.get<unsigned long long>());
  Check(cuda::LaunchStatus("DifferencesKernel"));
  return Differences(harness, differences);
}

template <uint32_t kChannels>
double CubChannelsUs(Harness& harness, uint64_t bytes) {
  const cuda::DeviceBuffer counts = Buffer(kChannels * 256 * 4);
  ::cuda::std::array<uint32_t*, kChannels> histograms;
  ::cuda::std::array<int, kChannels> levels, lower, upper;
  for (uint32_t c = 0; c < kChannels; ++c) {
    histograms[c] = counts.get<uint32_t>() + c * 256;
    levels[c] = 257;
    lower[c] = 0;
    upper[c] = 256;
  }
  const auto run = [&](void* temporary, size_t& size) {
    CheckCuda((cub::DeviceHistogram::MultiHistogramEven<kChannels, kChannels>(
                  temporary, size, harness.input(), histograms, levels, lower, upper,
                  static_cast<int>(bytes / kChannels), harness.stream())),
              "cub");
  };
  size_t size = 0;
  run(nullptr, size);
  const cuda::DeviceBuffer temporary = Buffer(std::max<size_t>(size, 1));
  return harness.MedianUs(3, [&](int) { run(temporary.get(), size); });
}

std::vector<double> SortedQuantiles(Harness& harness, uint64_t count,
                                    const std::vector<double>& quantiles, double& us) {
  const cuda::DeviceBuffer sorted = Buffer(count * 4);
  const auto run = [&](void* temporary, size_t& size) {
    CheckCuda(cub::DeviceRadixSort::SortKeys(
                  temporary, size, reinterpret_cast<const float*>(harness.input()),
                  sorted.get<float>(), static_cast<int64_t>(count), 0, 32, harness.stream()),
              "cub");
  };
  size_t size = 0;
  run(nullptr, size);
  const cuda::DeviceBuffer temporary = Buffer(std::max<size_t>(size, 1));
  us = harness.MedianUs(1, [&](int) { run(temporary.get(), size); });
  std::vector<double> values;
  for (const double q : quantiles) {
    values.push_back(internal::QuantileOf(count, q, [&](uint64_t rank) {
      float value = 0;
      CheckCuda(cudaMemcpy(&value, sorted.get<float>(rank * 4), 4, cudaMemcpyDeviceToHost), "rank");
      return static_cast<double>(value);
    }));
  }
  return values;
}

}  // namespace

void Print(const TypedRow& row) {
  absl::PrintF("%-5s %8d %-16s %-9s %-15s %7.0f GB/s %5.1f %%\n", row.type, row.bins, row.binning,
               row.distribution, row.kernel, row.gbps, 100 * row.of_ceiling);
  std::fflush(stdout);
}

void MeasureChannels(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                     std::vector<TypedRow>& rows) {
  const double ceiling = ceilings.read.at(bytes).gbps;
  for (const uint32_t channels : {3U, 4U}) {
    const uint64_t count = bytes / channels * channels;
    DeviceRows counter = Take(DeviceRows::Make(BytePlan(), {.channels = channels}, count));
    const cuda::DeviceBuffer expected = Buffer(channels * 1024);
    for (int d = 0; d < kByteDistributions; ++d) {
      FillSamples(BytePlan(), d, harness.input(), bytes, harness.stream());
      const auto run = [&](int) { Take(counter.Count(harness.input(), count, harness.stream())); };
      run(0);
      if (CompareRows(harness, count, count, channels, channels, counter.device_counts(),
                      expected) > 0) {
        Die(absl::StrCat(channels, " channels, ", kDistributions[d], ": a count is wrong"));
      }
      TypedRow row = {"u8", absl::StrCat(channels, " channels"), kDistributions[d], "byte_channels",
                      256};
      for (const bool cub : {false, true}) {
        const double us = !cub            ? harness.MedianUs(kRuns, run)
                          : channels == 3 ? CubChannelsUs<3>(harness, count)
                                          : CubChannelsUs<4>(harness, count);
        if (cub) row.kernel = "cub";
        row.gbps = Gbps(count, us);
        row.of_ceiling = row.gbps / ceiling;
        Print(row);
        rows.push_back(row);
      }
    }
  }
}

void MeasureWindows(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                    std::vector<TypedRow>& rows) {
  const cuda::DeviceBuffer expected = Buffer(bytes / 1024 * 1024);
  for (const uint64_t window : {1024, 2048, 4096}) {
    const uint64_t windows = bytes / window;
    using Answer = DeviceRows::Answer;
    const DeviceRowCut cut = {.window = window};
    DeviceRows counts = Take(DeviceRows::Make(BytePlan(), cut, bytes));
    DeviceRows entropies = Take(DeviceRows::Make(BytePlan(), cut, bytes, Answer::kEntropy));
    for (int d = 0; d < kByteDistributions; ++d) {
      FillSamples(BytePlan(), d, harness.input(), bytes, harness.stream());
      Take(counts.Count(harness.input(), bytes, harness.stream()));
      Take(entropies.Count(harness.input(), bytes, harness.stream()));
      const cuda::DeviceBuffer differences = Buffer(8);
      EntropyErrorKernel<<<static_cast<uint32_t>(windows / 256 + 1), 256, 0, harness.stream()>>>(
          counts.device_counts(), entropies.device_entropy(), windows, static_cast<double>(window),
          differences.get<unsigned long long>());
      if (CompareRows(harness, bytes, window, 1, windows, counts.device_counts(), expected) +
              Differences(harness, differences) >
          0) {
        Die(absl::StrCat("windows of ", window, ", ", kDistributions[d], ": an answer is wrong"));
      }
      for (const bool entropy : {false, true}) {
        DeviceRows& counter = entropy ? entropies : counts;
        const double us = harness.MedianUs(
            kRuns, [&](int) { Take(counter.Count(harness.input(), bytes, harness.stream())); });
        TypedRow row = {"u8", absl::StrCat(window / 1024, " KiB ", entropy ? "entropy" : "counts"),
                        kDistributions[d], "byte_windows", 256};
        row.gbps = Gbps(bytes, us);
        row.of_ceiling = entropy ? row.gbps / ceilings.read.at(bytes).gbps
                                 : Gbps(bytes + windows * 1024, us) / (2 * ceilings.copy_gbps);
        Print(row);
        rows.push_back(row);
      }
    }
  }
}

void MeasureQuantiles(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                      std::vector<TypedRow>& rows) {
  const std::vector<double> quantiles = {0.01, 0.25, 0.5, 0.99};
  const Plan plan = *Plan::Make(*Binning::Even(2048, -4.0, 4.0), SampleType::kF32);
  DeviceQuantiles search = Take(DeviceQuantiles::Make(SampleType::kF32, quantiles));
  // One step below the edge 0.0 is NaN, so that data on edges has no quantiles.
  for (int d = 0; d < 7; ++d) {
    FillSamples(plan, d, harness.input(), bytes, harness.stream());
    const auto run = [&](int) { Take(search.Find(harness.input(), bytes / 4, harness.stream())); };
    run(0);
    const std::vector<double> found = Take(search.Read(harness.stream()));
    double sort_us = 0;
    if (found != SortedQuantiles(harness, bytes / 4, quantiles, sort_us)) {
      Die(absl::StrCat("quantiles, ", kDistributions[d], ": one is wrong"));
    }
    TypedRow row = {"f32", "four quantiles", kDistributions[d], "digits", 0};
    for (const bool cub : {false, true}) {
      if (cub) row.kernel = "cub sort";
      row.gbps = Gbps(bytes, cub ? sort_us : harness.MedianUs(kRuns, run));
      row.of_ceiling = row.gbps / ceilings.read.at(bytes).gbps;
      Print(row);
      rows.push_back(row);
    }
  }
}

}  // namespace histogram::bench
