// The command line: what can be said, and which command it runs.
#ifndef HISTOGRAM_CLIENT_CLI_APP_H_
#define HISTOGRAM_CLIENT_CLI_APP_H_

#include <string>
#include <vector>

#include "client/cli/commands/commands.h"

namespace CLI {
class App;
}

namespace histogram::cli {

// Adds --format (one of `formats`) and --output.
void AddOutputOptions(CLI::App& command, OutputOptions& options,
                      const std::vector<std::string>& formats);

// `arguments`: without the program's name. Returns the exit code; reports its own errors.
int Run(std::vector<std::string> arguments, Environment& env);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_APP_H_
