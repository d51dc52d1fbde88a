// What the kernel benchmark measures, and its output: JSON and a table.
#ifndef HISTOGRAM_BENCH_KERNELS_RESULTS_H_
#define HISTOGRAM_BENCH_KERNELS_RESULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/kernels/ceilings.h"

namespace histogram::bench {

struct KernelRow {
  std::string kernel;
  std::string distribution;
  uint64_t bytes = 0;
  double gbps = 0;
  double of_ceiling = 0;  // of the read ceiling at the size that was asked for
  bool prefix = false;    // a slow kernel: measured on a part of the size asked for
};

struct BatchRow {
  uint64_t payload_bytes = 0;  // 0: a mix of sizes from 1 KiB to 1 MiB
  std::string distribution;
  std::string kernel;
  double gbps = 0;
  double of_bound = 0;
};

struct HostRow {
  uint64_t bytes = 0;
  uint32_t lanes = 0;
  double median_us = 0, p99_us = 0;
  double gbps = 0;
  double cpu_us = 0;  // processor time of the lane's thread per batch
};

struct ChoiceRow {
  uint64_t payload_bytes = 0;
  uint32_t payloads = 0;
  std::string kernel;
  double us = 0;
  std::string best_kernel;
  double best_us = 0;
};

// A number to reach, and whether it is.
struct TargetRow {
  std::string name;
  std::string relation;  // ">=", "<="
  double target = 0;
  double measured = 0;
  bool met = false;
};

struct Results {
  std::string device, driver, cuda, commit, date;
  Ceilings ceilings;
  std::vector<KernelRow> kernels;
  std::vector<BatchRow> batches;
  std::vector<HostRow> host;  // from pinned memory
  std::vector<ChoiceRow> choices;
  std::vector<TargetRow> targets;
};

std::string ToJson(const Results& results);
void PrintSummary(const Results& results);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_RESULTS_H_
