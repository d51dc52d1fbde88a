// The command line, and its commands. Each takes its options, writes to its environment and returns
// an exit code: 0 for success; 2 for bad or contradictory options; 130 if Ctrl-C ended it; 1 for
// any other failure, with one line on `err`.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COMMANDS_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COMMANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "client/cli/connection.h"
#include "client/cli/environment.h"
#include "client/load/load_generator.h"
#include "forms/options.h"

namespace CLI {
class App;
}

namespace histogram::cli {

struct ComputeOptions : SpecOptions {
  std::vector<std::string> files = {};  // empty: standard input
  std::string type = {};                // of the samples; empty: u8, or the type in the .npy files
  bool numbers = false;                 // the files are text of numbers
  std::string column = {};              // of tables of text, by name or number; empty: none
  std::optional<size_t> rows = {};      // 0: all
  OutputOptions output = {};
};

struct ImageOptions {
  std::string file = {};      // empty: standard input
  std::string binarize = {};  // a file to write; empty: none
  OutputOptions output = {};
};

struct HealthOptions {
  std::string service = {};
  std::string http = {};  // HOST:PORT of the metrics port; empty: ask over gRPC
};

struct BenchOptions {
  std::string api = "compute";
  client::LoadOptions load = {};  // all but the server and the API
  OutputOptions output = {};
};

int RunCompute(const ComputeOptions& options, const ServerOptions& server, Environment& env);
int RunImage(const ImageOptions& options, const ServerOptions& server, Environment& env);
int RunDescribe(const OutputOptions& options, const ServerOptions& server, Environment& env);
int RunHealth(const HealthOptions& options, const ServerOptions& server, Environment& env);
// Puts load on a server and reports its throughput and latencies.
int RunBench(const BenchOptions& options, const ServerOptions& server, Environment& env);
void AddBench(CLI::App& app, BenchOptions& options);

// Adds --format (one of `formats`) and --output.
void AddOutputOptions(CLI::App& command, OutputOptions& options,
                      const std::vector<std::string>& formats);

// `arguments`: without the program's name. Returns the exit code; prints errors itself.
int Run(std::vector<std::string> arguments, Environment& env);

// The completion script for bash: it runs `completion`, which prints the completions.
std::string CompletionScript(const CLI::App& program);
// What the last word of a command line may become, a line each: a command, an option, or one of the
// values that an option or an argument lists. Nothing: bash offers the names of files.
std::string Completions(const CLI::App& program, absl::string_view line);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COMMANDS_H_
