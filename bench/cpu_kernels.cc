// Every CPU kernel on every distribution, against what a core can read: GB/s and the part of the
// read ceiling of the same run, on one thread and on several, and for small payloads. Counts are
// checked before and after timing. Rates are by CPU time, so that a busy machine spoils them less.
//
//   bench_cpu_kernels [--bytes N] [--threads N] [--repeats N] [--kernel NAME] [--json FILE]
#include <histogram/usable_cores.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/registry.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram {
namespace {

using cpu::CpuKernel;
using testing::Distribution;
using testing::kDistributions;

struct Options {
  size_t bytes = size_t{64} << 20;
  uint32_t threads = UsableCores();
  int repeats = 9;
  std::string kernel;  // empty: all
  std::string json;    // empty: none
};

// What a run does with one thread's share of the bytes.
using Work = std::function<void(Fragment bytes)>;

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

std::atomic<uint64_t> g_sink{0};

void Read(Fragment bytes) {
  // The share starts at a multiple of 64 bytes of a vector's memory, which is aligned for any type.
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  g_sink.fetch_xor(ReadAll(words, bytes.size() / 8), std::memory_order_relaxed);
}

// CPU time of this thread: what else runs on the machine delays a thread but adds little to it.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The median over `repeats` runs, in each of which every thread does its share `loops` times, of
// the CPU time of the slowest thread.
double MedianSeconds(Fragment bytes, uint32_t threads, int repeats, int loops, const Work& work) {
  const size_t share = bytes.size() / threads / 64 * 64;
  std::vector<std::vector<double>> times(threads,
                                         std::vector<double>(static_cast<size_t>(repeats)));
  std::barrier<> barrier(threads);
  const auto run = [&](uint32_t thread) {
    const Fragment mine = threads == 1 ? bytes : bytes.subspan(thread * share, share);
    work(mine);  // warm
    for (double& time : times[thread]) {
      barrier.arrive_and_wait();
      const double start = ThreadSeconds();
      for (int loop = 0; loop < loops; ++loop) work(mine);
      time = (ThreadSeconds() - start) / loops;
    }
  };
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (std::thread& other : others) other.join();
  std::vector<double> slowest = times[0];
  for (const std::vector<double>& each : times) {
    for (size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], each[i]);
  }
  std::sort(slowest.begin(), slowest.end());
  return slowest[slowest.size() / 2];
}

double Gbps(Fragment bytes, uint32_t threads, int repeats, const Work& work) {
  const int loops = static_cast<int>(std::max<size_t>(1, (size_t{1} << 20) / (bytes.size() + 1)));
  const double seconds = MedianSeconds(bytes, threads, repeats, loops, work);
  return static_cast<double>(bytes.size()) / seconds / 1e9;
}

// Whether `kernel` counts `bytes` right; ends the program otherwise.
void Check(const CpuKernel& kernel, Fragment bytes, const ValueCounts& expected) {
  ValueCounts counts{};
  kernel.count({&bytes, 1}, counts.data());
  if (counts == expected) return;
  std::fprintf(stderr, "kernel %s counts %zu bytes wrongly\n", std::string(kernel.name).c_str(),
               bytes.size());
  std::exit(1);
}

double KernelGbps(const CpuKernel& kernel, Fragment bytes, uint32_t threads, int repeats) {
  return Gbps(bytes, threads, repeats, [&kernel](Fragment share) {
    ValueCounts counts{};
    kernel.count({&share, 1}, counts.data());
    g_sink.fetch_xor(counts[0], std::memory_order_relaxed);
  });
}

struct Row {
  std::string kernel;
  Distribution distribution;
  size_t bytes;
  uint32_t threads;
  double gbps, of_ceiling;
};

void PrintHead(const std::string& title) {
  std::printf("\n%s\n%-14s", title.c_str(), "");
  for (const Distribution distribution : kDistributions) {
    std::printf("%17s", Name(distribution).c_str());
  }
  std::printf("%9s\n", "worst");
}

// All kernels on payloads of one size.
void Measure(const Options& options, size_t bytes, uint32_t threads, std::vector<Row>& rows) {
  PrintHead(absl::StrCat(bytes, " bytes, ", threads, threads == 1 ? " thread" : " threads",
                         ": GB/s (part of the read ceiling)"));
  std::vector<std::vector<uint8_t>> payloads;
  std::vector<ValueCounts> expected;
  std::vector<double> ceilings;
  std::printf("%-14s", "read");
  for (const Distribution distribution : kDistributions) {
    payloads.push_back(MakePayload(distribution, bytes));
    expected.push_back(ReferenceCounts(payloads.back()));
    ceilings.push_back(Gbps(payloads.back(), threads, options.repeats, Read));
    rows.push_back({"read", distribution, bytes, threads, ceilings.back(), 1});
    std::printf("%10.2f       ", ceilings.back());
  }
  std::printf("\n");
  for (const CpuKernel& kernel : cpu::Kernels()) {
    if (!options.kernel.empty() && options.kernel != kernel.name) continue;
    std::printf("%-14s", std::string(kernel.name).c_str());
    if (!kernel.supported()) {
      std::printf("  not on this processor\n");
      continue;
    }
    double worst = 1e9;
    for (size_t d = 0; d < kDistributions.size(); ++d) {
      Check(kernel, payloads[d], expected[d]);
      const double gbps = KernelGbps(kernel, payloads[d], threads, options.repeats);
      Check(kernel, payloads[d], expected[d]);
      rows.push_back(
          {std::string(kernel.name), kDistributions[d], bytes, threads, gbps, gbps / ceilings[d]});
      worst = std::min(worst, gbps);
      std::printf("%10.2f (%3.0f%%)", gbps, 100 * gbps / ceilings[d]);
      std::fflush(stdout);
    }
    std::printf("%9.2f\n", worst);
  }
}

bool WriteJson(const std::string& path, const std::vector<Row>& rows) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::fprintf(file, "{\n  \"schema\": 1,\n  \"cpu\": \"%s\",\n", cpu::ModelName().c_str());
  std::fprintf(file, "  \"rows\": [");
  const char* separator = "\n";
  for (const Row& row : rows) {
    std::fprintf(file,
                 "%s    {\"kernel\": \"%s\", \"distribution\": \"%s\", \"bytes\": %zu, "
                 "\"threads\": %u, \"gbps\": %.3f, \"of_ceiling\": %.4f}",
                 separator, row.kernel.c_str(), Name(row.distribution).c_str(), row.bytes,
                 row.threads, row.gbps, row.of_ceiling);
    separator = ",\n";
  }
  std::fprintf(file, "\n  ]\n}\n");
  return std::fclose(file) == 0;
}

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

// Whether the arguments were understood.
bool ParseArguments(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 >= argc) return false;
    const std::string_view value = argv[i + 1];
    bool known = true;
    if (flag == "--bytes") {
      known = Parse(value, options.bytes);
    } else if (flag == "--threads") {
      known = Parse(value, options.threads) && options.threads <= 1024;
    } else if (flag == "--repeats") {
      known = Parse(value, options.repeats);
    } else if (flag == "--kernel") {
      options.kernel = value;
      known = cpu::FindKernel(value) != nullptr;
    } else if (flag == "--json") {
      options.json = value;
    } else {
      known = false;
    }
    if (!known) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  if (!ParseArguments(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: %s [--bytes N] [--threads N] [--repeats N] [--kernel NAME] [--json FILE]\n"
                 "kernels: %s\n",
                 argv[0],
                 absl::StrJoin(cpu::Kernels(), " ", [](std::string* out, const CpuKernel& kernel) {
                   out->append(kernel.name);
                 }).c_str());
    return 2;
  }
  std::printf("%s\n", cpu::ModelName().c_str());
  std::vector<Row> rows;
  Measure(options, options.bytes, 1, rows);
  if (options.threads > 1) Measure(options, options.bytes, options.threads, rows);
  for (const size_t bytes :
       {size_t{256}, size_t{1024}, size_t{4096}, size_t{65536}, size_t{1} << 20}) {
    if (bytes < options.bytes) Measure(options, bytes, 1, rows);
  }
  if (!options.json.empty() && !WriteJson(options.json, rows)) {
    std::fprintf(stderr, "cannot write %s\n", options.json.c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace histogram

int main(int argc, char** argv) { return histogram::Main(argc, argv); }
