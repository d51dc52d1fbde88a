// The command line: its options, and the command that it runs.
#ifndef HISTOGRAM_CLIENT_CLI_APP_H_
#define HISTOGRAM_CLIENT_CLI_APP_H_

#include <string>
#include <vector>

#include "client/cli/commands/commands.h"

namespace histogram::cli {

// Adds --format (one of `formats`) and --output.
void AddOutputOptions(CLI::App& command, OutputOptions& options,
                      const std::vector<std::string>& formats);

// `arguments`: without the program's name. Returns the exit code; prints errors itself.
int Run(std::vector<std::string> arguments, Environment& env);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_APP_H_
