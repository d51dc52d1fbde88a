// The completion script for bash, made from the command line's description: the names of options
// and arguments, and the values in their type names. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace histogram::cli {

// A value with the type name FILE completes to file names. A value whose type name lists values
// (see ListedValues) completes to these. Other values do not complete.
std::string CompletionScript(const CLI::App& app);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
