// How fast one core counts typed samples: each kernel that this processor runs, each type, several
// numbers of bins, and the distributions that kernels are afraid of.
//
//   bench_typed [--mib 64] [--row SAMPLES] [--kernel NAME] [--type NAME] [--json FILE]
//
// With --row, a kernel counts so many samples at a time, as it does for short rows.
// "edges" puts every sample on an edge or one step beside it. The counts of every row are compared
// with those of the plain kernel; a difference ends the program. So are exact quantiles with those
// of sorted samples: `--kernel quantiles` finds four of them, or 99.
#include "kernels/cpu/typed.h"

#include <histogram/typed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "kernels/order_statistics.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

constexpr const char* kDistributions[] = {"normal", "constant", "sorted", "edges"};
constexpr uint32_t kBins[] = {10, 64, 256, 2048, 4096, 65536};
constexpr std::string_view kQuantiles = "quantiles";
constexpr int kRounds = 5;

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

// Of this thread: other work on the machine does not count.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Prepare, typename Work>
double BestSeconds(const Prepare& prepare, const Work& work) {
  double best = std::numeric_limits<double>::max();
  for (int r = 0; r < kRounds; ++r) {
    prepare();
    const double start = CpuSeconds();
    work();
    best = std::min(best, CpuSeconds() - start);
  }
  return best;
}

struct Options {
  size_t mib = 64, row = cpu::kSamplesMax;
  std::string kernel, type, json;
};

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

void Report(SampleType type, uint32_t bins, const char* even, std::string_view family,
            const char* distribution, std::string_view kernel, double rate, std::FILE* json) {
  const std::string name(NameOf(type)), family_name(family), kernel_name(kernel);
  std::printf("%-5s %6u %-6s %-8s %-10s %-13s %6.2f Gsamples/s\n", name.c_str(), bins, even,
              family_name.c_str(), distribution, kernel_name.c_str(), rate);
  std::fflush(stdout);
  if (json == nullptr) return;
  std::fprintf(json,
               "{\"type\": \"%s\", \"bins\": %u, \"even\": %s, \"family\": \"%s\", "
               "\"distribution\": \"%s\", \"kernel\": \"%s\", \"gsamples_per_second\": %.3f}\n",
               name.c_str(), bins, std::strcmp(even, "even") == 0 ? "true" : "false",
               family_name.c_str(), distribution, kernel_name.c_str(), rate);
}

void Fail(std::string_view kernel, SampleType type) {
  std::fprintf(stderr, "%s counts %s wrong\n", std::string(kernel).c_str(),
               std::string(NameOf(type)).c_str());
  std::exit(1);
}

void RunRow(const Options& options, SampleType type, uint32_t bins, bool even, std::FILE* json) {
  if (options.kernel == kQuantiles) return;
  const Plan plan = *Plan::Make(BinningFor(type, bins, even), type);
  const size_t size = SampleBytes(type);
  for (const char* const distribution : kDistributions) {
    const std::vector<std::byte> samples =
        Fill(type, distribution, options.mib << 20, plan.binning().ComputeEdges());
    const size_t count = samples.size() / size;
    std::vector<uint64_t> expected(internal::SlotCount(bins)), row(expected.size());
    const cpu::SampleRun all{samples.data(), count};
    cpu::CountTypedScalar(plan.data(), {&all, 1}, expected.data());
    for (const cpu::TypedKernel& kernel : cpu::TypedKernels()) {
      if (!kernel.supported() || !kernel.counts(plan.data())) continue;
      if (!options.kernel.empty() && kernel.name != options.kernel) continue;
      const double seconds = BestSeconds(
          [&] { std::fill(row.begin(), row.end(), 0); },
          [&] {
            for (size_t i = 0; i < count; i += options.row) {
              const cpu::SampleRun run{samples.data() + i * size, std::min(options.row, count - i)};
              kernel.count(plan.data(), {&run, 1}, row.data());
            }
          });
      if (row != expected) Fail(kernel.name, type);
      Report(type, bins, even ? "even" : "uneven", plan.family(), distribution, kernel.name,
             static_cast<double>(count) / seconds / 1e9, json);
    }
  }
}

// `quantiles` of the samples at equal distances: the samples at their ranks and at the next ones.
void RunQuantiles(const Options& options, SampleType type, uint32_t quantiles, std::FILE* json) {
  if (!options.kernel.empty() && options.kernel != kQuantiles) return;
  const size_t size = SampleBytes(type);
  const std::vector<double> edges = BinningFor(type, 2048, true).ComputeEdges();
  for (const char* const distribution :
       {"normal", "constant", "sorted", "edges", "half zeros", "sixteen"}) {
    const std::vector<std::byte> samples = Fill(type, distribution, options.mib << 20, edges);
    const size_t count = samples.size() / size;
    std::vector<uint64_t> ranks, keys;
    for (uint32_t q = 1; q <= quantiles; ++q) {
      ranks.push_back(count * q / (quantiles + 1));
      ranks.push_back(std::min(ranks.back() + 1, uint64_t{count} - 1));
    }
    const double seconds = BestSeconds(
        [] {}, [&] { keys = internal::KeysAtRanks(samples, type, ranks, /*threads=*/1); });
    internal::VisitSample(type, [&]<typename S>(S) {
      std::vector<typename S::Bits> sorted(count);
      std::memcpy(sorted.data(), samples.data(), samples.size());
      std::sort(sorted.begin(), sorted.end());
      for (size_t r = 0; r < ranks.size(); ++r) {
        const uint64_t bits = internal::BitsOfKey(keys[r], type);
        typename S::Bits found;
        std::memcpy(&found, &bits, sizeof(found));
        if (S::Widen(found) != S::Widen(sorted[ranks[r]])) Fail(kQuantiles, type);
      }
    });
    Report(type, quantiles, "-", "ranks", distribution, kQuantiles,
           static_cast<double>(count) / seconds / 1e9, json);
  }
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--mib") {
      options.mib = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--row") {
      options.row = std::max<size_t>(1, std::strtoull(value.c_str(), nullptr, 10));
    } else if (flag == "--kernel") {
      options.kernel = value;
    } else if (flag == "--type") {
      options.type = value;
    } else if (flag == "--json") {
      options.json = value;
    } else {
      std::fprintf(stderr, "unknown flag %s; there are --mib, --row, --kernel, --type, --json\n",
                   argv[i]);
      return 2;
    }
  }
  std::FILE* const json = options.json.empty() ? nullptr : std::fopen(options.json.c_str(), "w");
  for (size_t t = 0; t < kSampleTypes; ++t) {
    const auto type = static_cast<SampleType>(t);
    if (!options.type.empty() && NameOf(type) != options.type) continue;
    for (const uint32_t bins : kBins) RunRow(options, type, bins, true, json);
    RunRow(options, type, 1000, false, json);
    if (SampleBytes(type) >= 4) {
      for (const uint32_t quantiles : {4, 99}) RunQuantiles(options, type, quantiles, json);
    }
  }
  if (json != nullptr) std::fclose(json);
  return 0;
}

}  // namespace
}  // namespace histogram

int main(int argc, char** argv) { return histogram::Main(argc, argv); }
