// `histogram-client bench`: puts load on a server and reports its throughput and latencies.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_BENCH_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_BENCH_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/commands/commands.h"

namespace histogram::cli {

struct BenchOptions {
  std::string api = "compute";
  std::string payload = "64KiB";
  std::string distribution = "uniform";
  uint32_t float_bins = 0;  // 0: bytes
  uint32_t connections = 1;
  uint32_t in_flight = 8;
  double rate = 0;
  double duration_s = 10;
  double warm_up_s = 1;
  bool no_verify = false;
  OutputOptions output;
};

void AddBench(CLI::App& app, BenchOptions& options);
int RunBench(const BenchOptions& options, const ServerOptions& server, Environment& env);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_BENCH_H_
