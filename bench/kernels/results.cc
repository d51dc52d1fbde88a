#include "bench/kernels/results.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace histogram::bench {
namespace {

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// Rows, one a line.
template <typename Row, typename Format>
std::string Array(const std::vector<Row>& rows, Format format) {
  if (rows.empty()) return "[]";
  return absl::StrCat("[\n    ",
                      absl::StrJoin(rows, ",\n    ",
                                    [&format](std::string* out, const Row& row) {
                                      absl::StrAppend(out, format(row));
                                    }),
                      "\n  ]");
}

std::string CeilingsJson(const Ceilings& ceilings) {
  const std::string read =
      absl::StrJoin(ceilings.read, ", ",
                    [](std::string* out, const std::pair<const uint64_t, Ceilings::Read>& r) {
                      absl::StrAppendFormat(out, "\"%d\": %.1f", r.first, r.second.gbps);
                    });
  const std::string names =
      absl::StrJoin(ceilings.read, ", ",
                    [](std::string* out, const std::pair<const uint64_t, Ceilings::Read>& r) {
                      absl::StrAppendFormat(out, "\"%d\": %s", r.first, Quote(r.second.kernel));
                    });
  return absl::StrFormat(
      "{\n    \"read_gbps\": {%s},\n    \"read_kernel\": {%s},\n    \"memory_gbps\": %.1f,\n    "
      "\"copy_gbps\": %.1f,\n    "
      "\"host_to_device_gbps\": %.2f,\n    \"null_launch_us\": %.2f\n  }",
      read, names, ceilings.memory_gbps, ceilings.copy_gbps, ceilings.host_to_device_gbps,
      ceilings.null_launch_us);
}

std::string HostJson(const HostRow& row) {
  return absl::StrFormat(
      "{\"bytes\": %d, \"lanes\": %d, \"median_us\": %.2f, \"p99_us\": %.2f, \"gbps\": %.2f, "
      "\"cpu_us\": %.2f}",
      row.bytes, row.lanes, row.median_us, row.p99_us, row.gbps, row.cpu_us);
}

std::string SizeName(uint64_t bytes) {
  if (bytes >= kGiB) return absl::StrCat(bytes / kGiB, " GiB");
  if (bytes >= kMiB) return absl::StrCat(bytes / kMiB, " MiB");
  if (bytes >= kKiB) return absl::StrCat(bytes / kKiB, " KiB");
  return absl::StrCat(bytes, " B");
}

void PrintKernels(const Results& results) {
  // One line a kernel: distributions at the largest size, 256 values.
  std::vector<std::string> distributions, kernels;
  std::map<std::pair<std::string, std::string>, double> cells;
  uint64_t largest = 0;
  for (const auto& read : results.ceilings.read) largest = std::max(largest, read.first);
  for (const KernelRow& row : results.kernels) {
    if (row.bytes != largest && !row.prefix) continue;
    if (std::find(kernels.begin(), kernels.end(), row.kernel) == kernels.end()) {
      kernels.push_back(row.kernel);
    }
    if (std::find(distributions.begin(), distributions.end(), row.distribution) ==
        distributions.end()) {
      distributions.push_back(row.distribution);
    }
    cells[{row.kernel, row.distribution}] = row.gbps;
  }
  std::printf("\nGB/s, 256 values, %s (slow kernels on a part of it)\n%-18s",
              SizeName(largest).c_str(), "");
  for (const std::string& distribution : distributions) {
    std::printf("%9.8s", distribution.c_str());
  }
  for (const std::string& kernel : kernels) {
    std::printf("\n%-18s", kernel.c_str());
    for (const std::string& distribution : distributions) {
      std::printf("%9.1f", cells[{kernel, distribution}]);
    }
  }
  std::printf("\n");
}

// Worst distribution of the level kernels, by size, in percent of the ceiling.
void PrintWorst(const Results& results) {
  std::printf("\nworst distribution, 256 values, %% of the read ceiling\n");
  std::map<std::pair<std::string, uint64_t>, const KernelRow*> worst;
  for (const KernelRow& row : results.kernels) {
    if (row.prefix) continue;
    const KernelRow*& cell = worst[{row.kernel, row.bytes}];
    if (cell == nullptr || row.gbps < cell->gbps) cell = &row;
  }
  for (const auto& [key, row] : worst) {
    if (row->of_ceiling < 0.2) continue;
    std::printf("  %-16s %8s  %5.1f %%  %7.1f GB/s  (%s)\n", key.first.c_str(),
                SizeName(key.second).c_str(), row->of_ceiling * 100, row->gbps,
                row->distribution.c_str());
  }
}

void PrintHost(const std::vector<HostRow>& rows) {
  for (const HostRow& row : rows) {
    std::printf("  %8s  %d lanes  median %8.2f us  p99 %8.2f us  %6.2f GB/s  cpu %7.2f us\n",
                SizeName(row.bytes).c_str(), row.lanes, row.median_us, row.p99_us, row.gbps,
                row.cpu_us);
  }
}

}  // namespace

std::string ToJson(const Results& r) {
  return absl::StrCat(
      "{\n  \"device\": ", Quote(r.device), ",\n  \"driver\": ", Quote(r.driver),
      ",\n  \"cuda\": ", Quote(r.cuda), ",\n  \"commit\": ", Quote(r.commit),
      ",\n  \"date\": ", Quote(r.date), ",\n  \"ceilings\": ", CeilingsJson(r.ceilings),
      ",\n  \"kernels\": ",
      Array(r.kernels,
            [](const KernelRow& row) {
              return absl::StrFormat(
                  "{\"kernel\": %s, \"distribution\": %s, \"bytes\": %d, \"gbps\": "
                  "%.1f, \"of_ceiling\": %.4f%s}",
                  Quote(row.kernel), Quote(row.distribution), row.bytes, row.gbps, row.of_ceiling,
                  row.prefix ? ", \"prefix\": true" : "");
            }),
      ",\n  \"batches\": ",
      Array(r.batches,
            [](const BatchRow& row) {
              return absl::StrFormat(
                  "{\"payload_bytes\": %s, \"distribution\": %s, \"kernel\": %s, \"gbps\": %.1f, "
                  "\"of_bound\": %.4f}",
                  row.payload_bytes == 0 ? "\"mix\"" : absl::StrCat(row.payload_bytes),
                  Quote(row.distribution), Quote(row.kernel), row.gbps, row.of_bound);
            }),
      ",\n  \"host\": ", Array(r.host, HostJson), ",\n  \"choices\": ",
      Array(r.choices,
            [](const ChoiceRow& row) {
              return absl::StrFormat(
                  "{\"payload_bytes\": %d, \"payloads\": %d, \"kernel\": %s, \"us\": %.2f, "
                  "\"best_kernel\": %s, \"best_us\": %.2f, \"distance\": %.4f}",
                  row.payload_bytes, row.payloads, Quote(row.kernel), row.us,
                  Quote(row.best_kernel), row.best_us, row.us / row.best_us - 1);
            }),
      ",\n  \"targets\": ",
      Array(r.targets,
            [](const TargetRow& row) {
              return absl::StrFormat(
                  "{\"target\": %s, \"relation\": %s, \"value\": %g, \"measured\": %.4f, "
                  "\"met\": %s}",
                  Quote(row.name), Quote(row.relation), row.target, row.measured,
                  row.met ? "true" : "false");
            }),
      "\n}\n");
}

void PrintSummary(const Results& results) {
  const Ceilings& ceilings = results.ceilings;
  std::printf("%s, driver %s, CUDA %s\n", results.device.c_str(), results.driver.c_str(),
              results.cuda.c_str());
  for (const auto& [bytes, read] : ceilings.read) {
    std::printf("read ceiling %8s  %7.1f GB/s  (%s)\n", SizeName(bytes).c_str(), read.gbps,
                read.kernel.c_str());
  }
  std::printf("copy %.1f GB/s, host to device %.2f GB/s, null launch %.2f us\n", ceilings.copy_gbps,
              ceilings.host_to_device_gbps, ceilings.null_launch_us);
  PrintKernels(results);
  PrintWorst(results);
  std::printf("\nbatches of 256 MiB, worst distribution of each kernel and payload size\n");
  std::map<std::pair<uint64_t, std::string>, const BatchRow*> worst;
  for (const BatchRow& row : results.batches) {
    const BatchRow*& cell = worst[{row.payload_bytes, row.kernel}];
    if (cell == nullptr || row.gbps < cell->gbps) cell = &row;
  }
  for (const auto& [key, row] : worst) {
    std::printf("  %8s  %-14s %7.1f GB/s  %5.1f %% of the bound  (%s)\n",
                key.first == 0 ? "mix" : SizeName(key.first).c_str(), key.second.c_str(), row->gbps,
                row->of_bound * 100, row->distribution.c_str());
  }
  std::printf("\nfrom pinned memory to counts on the host\n");
  PrintHost(results.host);
  for (const ChoiceRow& row : results.choices) {
    std::printf("  %8s x %-5d chosen %-14s %8.2f us, best %-14s %8.2f us\n",
                SizeName(row.payload_bytes).c_str(), row.payloads, row.kernel.c_str(), row.us,
                row.best_kernel.c_str(), row.best_us);
  }
  std::printf("\ntargets\n");
  for (const TargetRow& row : results.targets) {
    std::printf("  %-6s %-78s %9.3f %s %g\n", row.met ? "met" : "MISSED", row.name.c_str(),
                row.measured, row.relation.c_str(), row.target);
  }
}

}  // namespace histogram::bench
