// How fast one core counts typed samples: each kernel that this processor runs, each type, several
// numbers of bins, and the distributions that kernels are afraid of. And how fast it finds exact
// quantiles.
//
//   bench_typed --benchmark_filter='avx2/f32/normal/256/'      KERNEL/TYPE/DISTRIBUTION/BINS/ROW
//   bench_typed --benchmark_filter='quantiles/f32/'            quantiles/TYPE/DISTRIBUTION/NUMBER
//
// A kernel counts so many samples (ROW) at a time, as it does for short rows. "edges" puts every
// sample on an edge or one step beside it. After timing, counts are compared with those of the
// plain kernel, and quantiles with those of sorted samples.

#include <benchmark/benchmark.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/order_statistics.h"
#include "kernels/payload.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr uint32_t kBins[] = {10, 64, 256, 2048, 4096, 65536};

// A number in [0, 1) from a counter.
double Uniform(uint64_t i) {
  uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  return static_cast<double>((x ^ x >> 31) >> 11) * 0x1p-53;
}

// The range that bins are laid over.
std::pair<double, double> RangeOf(SampleType type) {
  switch (type) {
    case SampleType::kU8:
      return {0, 256};
    case SampleType::kI8:
      return {-128, 128};
    case SampleType::kU16:
      return {0, 65536};
    case SampleType::kI16:
      return {-32768, 32768};
    case SampleType::kU32:
    case SampleType::kU64:
      return {0, 1e6};
    case SampleType::kI32:
    case SampleType::kI64:
      return {-1e6, 1e6};
    default:
      return {-4, 4};
  }
}

double Value(const std::string& distribution, uint64_t i, uint64_t count, double low, double high,
             const std::vector<double>& edges) {
  const double middle = (low + high) / 2, spread = (high - low) / 8;
  if (distribution == "constant") return low + (high - low) * 0.37;
  if (distribution == "sorted") {
    return low + (high - low) * (static_cast<double>(i) / static_cast<double>(count));
  }
  if (distribution == "edges") return edges[static_cast<size_t>(Uniform(i) * (edges.size() - 1.0))];
  if (distribution == "sixteen") return low + (high - low) * (std::floor(Uniform(i) * 16) + 1) / 17;
  if (distribution == "half zeros" && Uniform(i + count) < 0.5) return 0;
  return middle + spread * std::sqrt(-2 * std::log(Uniform(2 * i) + 1e-300)) *
                      std::cos(6.283185307179586 * Uniform(2 * i + 1));
}

template <typename S>
typename S::Bits ToBits(double value, bool beside, uint64_t i) {
  using Bits = typename S::Bits;
  const int step = beside ? static_cast<int>(i % 3) - 1 : 0;
  if constexpr (std::is_floating_point_v<Bits>) {
    const Bits x = static_cast<Bits>(value);
    if (step == 0) return x;
    return std::nextafter(
        x, step < 0 ? -std::numeric_limits<Bits>::max() : std::numeric_limits<Bits>::max());
  } else if constexpr (std::is_same_v<S, internal::BfloatSample>) {
    return static_cast<Bits>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
  } else if constexpr (std::is_same_v<S, internal::HalfSample>) {
    // Normal numbers only, which is what these distributions hold.
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 112;
    if (exponent <= 0) return static_cast<Bits>(bits >> 16 & 0x8000);
    return static_cast<Bits>((bits >> 16 & 0x8000) | (static_cast<uint32_t>(exponent) << 10) |
                             (bits >> 13 & 0x3FF));
  } else {
    return static_cast<Bits>(std::clamp(std::floor(value) + step,
                                        static_cast<double>(std::numeric_limits<Bits>::lowest()),
                                        0x1p62));
  }
}

std::vector<std::byte> Fill(SampleType type, const std::string& distribution, size_t bytes,
                            const std::vector<double>& edges) {
  std::vector<std::byte> samples(bytes);
  const uint64_t count = bytes / SampleBytes(type);
  internal::VisitSample(type, [&]<typename S>(S) {
    for (uint64_t i = 0; i < count; ++i) {
      const auto bits = ToBits<S>(Value(distribution, i, count, edges.front(), edges.back(), edges),
                                  distribution == "edges", i);
      std::memcpy(samples.data() + i * sizeof(bits), &bits, sizeof(bits));
    }
  });
  return samples;
}

Binning BinningFor(SampleType type, uint32_t bins, bool even) {
  const auto [low, high] = RangeOf(type);
  if (even) return *Binning::Even(bins, low, high);
  std::vector<double> edges;  // the third power: close together in the middle
  for (uint32_t i = 0; i <= bins; ++i) {
    const double share = 2.0 * i / bins - 1;
    edges.push_back((low + high) / 2 + (high - low) / 2 * (share * share * share + share) / 2);
  }
  return *Binning::Edges(edges);
}

// The samples of the benchmark that runs: each is called several times.
const std::vector<std::byte>& SamplesOf(SampleType type, const std::string& distribution,
                                        const std::vector<double>& edges) {
  static std::vector<std::byte> samples;
  static std::tuple<SampleType, std::string, std::vector<double>> made;
  if (std::tuple wanted{type, distribution, edges}; samples.empty() || wanted != made) {
    samples = Fill(type, distribution, kBytes, edges);
    made = std::move(wanted);
  }
  return samples;
}

void Count(benchmark::State& state, const cpu::CpuKernel& kernel, const Plan& plan,
           const std::string& distribution) {
  const size_t size = SampleBytes(plan.type()), count = kBytes / size;
  const auto row_samples = static_cast<size_t>(state.range(0));
  const std::vector<std::byte>& samples =
      SamplesOf(plan.type(), distribution, plan.binning().ComputeEdges());
  std::vector<uint64_t> expected(plan.counter_count()), row(expected.size());
  for ([[maybe_unused]] auto _ : state) {
    std::fill(row.begin(), row.end(), 0);
    for (size_t i = 0; i < count; i += row_samples) {
      const Fragment run =
          FragmentOf(std::span(samples).subspan(i * size, std::min(row_samples, count - i) * size));
      kernel.count(plan.data(), {&run, 1}, row.data());
    }
  }
  const Fragment all = FragmentOf(samples);
  cpu::TypedKernels().front().count(plan.data(), {&all, 1}, expected.data());
  if (row != expected) state.SkipWithError("wrong counts");
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(count));
}

// So many quantiles of the samples at equal distances: the samples at their ranks and at the next
// ones.
void FindQuantiles(benchmark::State& state, SampleType type, const std::string& distribution) {
  const auto quantiles = static_cast<size_t>(state.range(0));
  const size_t count = kBytes / SampleBytes(type);
  const std::vector<std::byte>& samples =
      SamplesOf(type, distribution, BinningFor(type, 2048, true).ComputeEdges());
  std::vector<uint64_t> ranks, keys;
  for (size_t q = 1; q <= quantiles; ++q) {
    ranks.push_back(count * q / (quantiles + 1));
    ranks.push_back(std::min(ranks.back() + 1, uint64_t{count} - 1));
  }
  for ([[maybe_unused]] auto _ : state) {
    keys = internal::KeysAtRanks(samples, type, ranks, /*threads=*/1);
  }
  internal::VisitSample(type, [&]<typename S>(S) {
    std::vector<typename S::Bits> sorted(count);
    std::memcpy(sorted.data(), samples.data(), samples.size());
    std::sort(sorted.begin(), sorted.end());
    for (size_t r = 0; r < ranks.size(); ++r) {
      const uint64_t bits = internal::BitsOfKey(keys[r], type);
      typename S::Bits found;
      std::memcpy(&found, &bits, sizeof(found));
      if (S::Widen(found) != S::Widen(sorted[ranks[r]])) state.SkipWithError("a wrong quantile");
    }
  });
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(count));
}

// "scalar/f32/normal": the name of a benchmark.
std::string NameOfAll(std::initializer_list<std::string_view> words) {
  std::string name;
  for (const std::string_view word : words) name.append(name.empty() ? "" : "/").append(word);
  return name;
}

void RegisterPlan(const Plan& plan, const std::string& binning) {
  for (const cpu::CpuKernel& kernel : cpu::TypedKernels()) {
    if (!kernel.supported() || !kernel.counts(plan.data())) continue;
    for (const std::string distribution : {"normal", "constant", "sorted", "edges"}) {
      const std::string name = NameOfAll({kernel.name, NameOf(plan.type()), distribution, binning});
      benchmark::RegisterBenchmark(name.c_str(), Count, std::cref(kernel), plan, distribution)
          ->ArgsProduct({{1000, cpu::kSamplesMax}})
          ->Unit(benchmark::kMillisecond);
    }
  }
}

void RegisterType(SampleType type) {
  for (const uint32_t bins : kBins) {
    RegisterPlan(*Plan::Make(BinningFor(type, bins, true), type), std::to_string(bins));
  }
  RegisterPlan(*Plan::Make(BinningFor(type, 1000, false), type), "uneven_1000");
  if (SampleBytes(type) < 4) return;
  for (const std::string distribution :
       {"normal", "constant", "sorted", "edges", "half zeros", "sixteen"}) {
    const std::string name = NameOfAll({"quantiles", NameOf(type), distribution});
    benchmark::RegisterBenchmark(name.c_str(), FindQuantiles, type, distribution)
        ->Arg(4)
        ->Arg(99)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace histogram

int main(int argc, char** argv) {
  for (size_t t = 0; t < histogram::kSampleTypes; ++t) {
    histogram::RegisterType(static_cast<histogram::SampleType>(t));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
