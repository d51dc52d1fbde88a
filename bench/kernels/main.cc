// bench-kernels: every CUDA kernel against what the machine can do, measured in one run.
//
//   bench-kernels [--json FILE] [--commit ID] [--quick] [--only kernels,batches,choices,host]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kernels/ceilings.h"
#include "bench/kernels/choices.h"
#include "bench/kernels/harness.h"
#include "bench/kernels/host.h"
#include "bench/kernels/results.h"
#include "bench/kernels/targets.h"

namespace histogram::bench {
namespace {

struct Options {
  std::string json, commit = "unknown", only = "kernels,batches,choices,host";
  bool quick = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--json" && has_value) {
      options.json = argv[++i];
    } else if (word == "--commit" && has_value) {
      options.commit = argv[++i];
    } else if (word == "--only" && has_value) {
      options.only = argv[++i];
    } else {
      Die(absl::StrCat("unknown argument '", word,
                       "'; valid are --json FILE, --commit ID, --only LIST, --quick"));
    }
  }
  return options;
}

constexpr int kRuns = 15;
// A slow kernel gets no more than this; a run of it should take about 10 ms.
constexpr uint64_t kSlowBytes = 8 * kMiB;

KernelRow MeasureKernel(Harness& harness, const Ceilings& ceilings, const cuda::CudaKernel& kernel,
                        Distribution distribution, uint64_t bytes) {
  const uint64_t measured = kernel.slow ? std::min(bytes, kSlowBytes) : bytes;
  harness.CheckKernel(kernel, measured);
  const double us = harness.TimeKernel(kernel, measured, kernel.slow ? 9 : kRuns);
  harness.CheckKernel(kernel, measured);
  KernelRow row;
  row.kernel = std::string(kernel.name);
  row.distribution = Name(distribution);
  row.bytes = measured;
  row.prefix = measured != bytes;
  row.gbps = Gbps(measured, us);
  row.of_ceiling = row.gbps / ceilings.read.at(bytes).gbps;
  return row;
}

// Payloads of one size, or of 1 KiB to 1 MiB with logarithms spread evenly, 256 MiB in all.
std::vector<cuda::PayloadDescriptor> MakePayloads(uint64_t payload_bytes) {
  std::vector<cuda::PayloadDescriptor> payloads;
  testing::Random random(17);
  for (uint64_t at = 0; at < 256 * kMiB;) {
    uint64_t bytes = payload_bytes;
    if (bytes == 0) bytes = static_cast<uint64_t>(1024 * std::exp2(10 * random.Unit()));
    bytes = std::min(bytes, 256 * kMiB - at);
    payloads.push_back({at, static_cast<uint32_t>(bytes), 0});
    at += (bytes + 127) / 128 * 128;  // as lanes lay payloads out
  }
  return payloads;
}

void MeasureBatches(Harness& harness, Distribution distribution, Results& results) {
  for (const uint64_t payload_bytes :
       {1 * kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 1 * kMiB, uint64_t{0}}) {
    std::vector<cuda::PayloadDescriptor> payloads = MakePayloads(payload_bytes);
    uint64_t bytes = 0;
    for (const cuda::PayloadDescriptor& payload : payloads) bytes += payload.bytes;
    const double bound_us = static_cast<double>(bytes + payloads.size() * cuda::kRowBytes) /
                            (2 * results.ceilings.copy_gbps * 1e3);
    for (const cuda::CudaKernel* kernel : cuda::Kernels()) {
      if (!kernel->batches) continue;
      harness.CheckBatch(*kernel, payloads);
      const double us = harness.TimeBatch(*kernel, payloads, kRuns);
      harness.CheckBatch(*kernel, payloads);
      results.batches.push_back({.payload_bytes = payload_bytes,
                                 .distribution = Name(distribution),
                                 .kernel = std::string(kernel->name),
                                 .gbps = Gbps(bytes, us),
                                 .of_bound = bound_us / us});
    }
  }
}

void MeasureMatrix(Harness& harness, const Options& options, Results& results) {
  const bool kernels = absl::StrContains(options.only, "kernels");
  const bool batches = absl::StrContains(options.only, "batches");
  for (const Distribution distribution : testing::kDistributions) {
    if (options.quick && distribution != Distribution::kUniform &&
        distribution != Distribution::kMultiplesOf32 && distribution != Distribution::kLetters) {
      continue;
    }
    harness.Fill(testing::MakePayload(distribution, kPatternBytes));
    for (const cuda::CudaKernel* kernel : cuda::Kernels()) {
      if (!kernels ||
          (options.quick && kernel->name != "lane_private" && kernel->name != "warp_batch" &&
           kernel->name != "quad_batch" && kernel->name != "cub_histogram")) {
        continue;
      }
      for (const auto& read : results.ceilings.read) {
        if (kernel->slow && read.first != kGiB && read.first != 64 * kKiB) continue;
        results.kernels.push_back(
            MeasureKernel(harness, results.ceilings, *kernel, distribution, read.first));
      }
    }
    if (batches) MeasureBatches(harness, distribution, results);
    std::fprintf(stderr, "%s done\n", Name(distribution).c_str());
  }
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Harness harness;
  Results results;
  int runtime = 0;
  CheckCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  results.device = harness.device().name;
  results.driver = harness.device().driver;
  results.cuda = absl::StrFormat("%d.%d", runtime / 1000, runtime % 1000 / 10);
  results.commit = options.commit;
  results.date = Today();
  harness.Fill(testing::MakePayload(Distribution::kUniform, kPatternBytes));
  results.ceilings = MeasureCeilings(harness, {64 * kKiB, kMiB, 16 * kMiB, 256 * kMiB, kGiB});
  MeasureMatrix(harness, options, results);
  if (absl::StrContains(options.only, "choices")) results.choices = MeasureChoices(harness);
  if (absl::StrContains(options.only, "host")) {
    results.host = MeasureHost(harness, options.quick ? 0.15 : 0.4);
  }
  results.targets = JudgeTargets(results);
  PrintSummary(results);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << ToJson(results);
    if (!file.flush()) Die("cannot write " + options.json);
  }
  return 0;
}

}  // namespace
}  // namespace histogram::bench

int main(int argc, char** argv) { return histogram::bench::Main(argc, argv); }
