// Every CPU kernel of bytes on every distribution, beside what a core can read: GB/s on one thread,
// on several, and for small payloads. Counts are checked after timing.
//
//   bench_cpu_kernels --benchmark_filter='(read|scalar)/.*/4096'     KERNEL/DISTRIBUTION/BYTES
#include <benchmark/benchmark.h>
#include <histogram/usable_cores.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/registry.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram {
namespace {

using testing::Distribution;

constexpr int64_t kLargeBytes = int64_t{64} << 20;

// What a run does with a thread's payload.
using Work = std::function<void(Fragment bytes, ValueCounts& counts)>;

// Clones for wider vectors, so that the ceiling is the machine's and not the compiler's.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
uint64_t
ReadAll(const uint64_t* words, size_t count) {
  uint64_t sums[32] = {};
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    for (size_t k = 0; k < 32; ++k) sums[k] ^= words[i + k];
  }
  for (; i < count; ++i) sums[0] ^= words[i];
  uint64_t all = 0;
  for (const uint64_t sum : sums) all ^= sum;
  return all;
}

void Read(Fragment bytes, ValueCounts&) {
  // A vector's memory is aligned for any type.
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  benchmark::DoNotOptimize(ReadAll(words, bytes.size() / sizeof(uint64_t)));
}

void Measure(benchmark::State& state, const Work& work, Distribution distribution, bool counted) {
  const auto size = static_cast<size_t>(state.range(0) / state.threads());
  const std::vector<uint8_t> payload = MakePayload(distribution, size);
  ValueCounts counts{};
  for ([[maybe_unused]] auto _ : state) {
    counts = {};
    work(payload, counts);
    benchmark::DoNotOptimize(counts);
  }
  if (counted && counts != ReferenceCounts(payload)) state.SkipWithError("wrong counts");
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(size));
}

void Register(std::string_view name, const Work& work, bool counted) {
  for (const Distribution distribution : testing::kDistributions) {
    const std::string full = absl::StrCat(std::string(name), "/", testing::Name(distribution));
    const auto measure = [=](benchmark::State& s) { Measure(s, work, distribution, counted); };
    benchmark::RegisterBenchmark(full.c_str(), measure)
        ->ArgsProduct({{256, 1024, 4096, 65536, 1 << 20, kLargeBytes}});
    benchmark::RegisterBenchmark(full.c_str(), measure)
        ->Arg(kLargeBytes)
        ->Threads(static_cast<int>(UsableCores()))
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace histogram

int main(int argc, char** argv) {
  histogram::Register("read", histogram::Read, /*counted=*/false);
  const histogram::internal::PlanData& plan = histogram::Plan().data();
  for (const histogram::cpu::CpuKernel& kernel : histogram::cpu::ByteKernels()) {
    if (!kernel.supported()) continue;
    const auto count = [&](histogram::Fragment bytes, histogram::ValueCounts& counts) {
      kernel.count(plan, {&bytes, 1}, counts.data());
    };
    histogram::Register(kernel.name, count, /*counted=*/true);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
