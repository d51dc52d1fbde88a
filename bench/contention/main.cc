// bench-contention: the classic table, how each kernel fares as fewer distinct values are left.
//
//   bench-contention [--json FILE] [--commit ID]
#include <cstdio>
#include <ctime>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kernels/harness.h"

namespace histogram::bench {
namespace {

constexpr uint64_t kBytes = 256 * kMiB;
constexpr uint64_t kSlowBytes = 4 * kMiB;
constexpr uint32_t kDistinct[] = {256, 128, 64, 32, 16, 8, 4, 2, 1};

// Random bytes of `distinct` values, spread evenly over all.
std::vector<uint8_t> MakePattern(uint32_t distinct) {
  std::vector<uint8_t> pattern(kPatternBytes);
  testing::Random random(distinct);
  for (uint8_t& byte : pattern) {
    byte = static_cast<uint8_t>(random.Below(distinct) * (kByteValues / distinct));
  }
  return pattern;
}

int Main(int argc, char** argv) {
  std::string json, commit = "unknown";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (word == "--commit" && i + 1 < argc) {
      commit = argv[++i];
    } else {
      Die(absl::StrCat("unknown argument '", word, "'; valid are --json FILE, --commit ID"));
    }
  }
  Harness harness;
  const absl::Span<const cuda::CudaKernel* const> kernels = cuda::Kernels();
  std::vector<std::vector<double>> gbps(kernels.size());
  for (const uint32_t distinct : kDistinct) {
    harness.Fill(MakePattern(distinct));
    for (size_t k = 0; k < kernels.size(); ++k) {
      const uint64_t bytes = kernels[k]->slow() ? kSlowBytes : kBytes;
      harness.CheckKernel(*kernels[k], bytes);
      gbps[k].push_back(Gbps(bytes, harness.TimeKernel(*kernels[k], bytes, 9)));
      harness.CheckKernel(*kernels[k], bytes);
    }
  }
  std::printf("GB/s by the number of distinct values (%s)\n%-18s", harness.device().name.c_str(),
              "");
  for (const uint32_t distinct : kDistinct) std::printf("%8u", distinct);
  std::string rows;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::string name(kernels[k]->name());
    std::printf("\n%-18s", name.c_str());
    for (size_t d = 0; d < gbps[k].size(); ++d) {
      std::printf("%8.1f", gbps[k][d]);
      absl::StrAppendFormat(&rows, "%s    {\"kernel\": \"%s\", \"distinct\": %d, \"gbps\": %.1f}",
                            rows.empty() ? "" : ",\n", name, kDistinct[d], gbps[k][d]);
    }
  }
  std::printf("\n");
  if (json.empty()) return 0;
  int runtime = 0;
  CheckCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  std::ofstream file(json);
  file << absl::StrFormat(
      "{\n  \"device\": \"%s\",\n  \"driver\": \"%s\",\n  \"cuda\": \"%d.%d\",\n  \"commit\": "
      "\"%s\",\n  \"date\": \"%s\",\n  \"contention\": [\n%s\n  ]\n}\n",
      harness.device().name, harness.device().driver, runtime / 1000, runtime % 1000 / 10, commit,
      date, rows);
  if (!file.flush()) Die("cannot write " + json);
  return 0;
}

}  // namespace
}  // namespace histogram::bench

int main(int argc, char** argv) { return histogram::bench::Main(argc, argv); }
