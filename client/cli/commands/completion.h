// The completion script for bash, written from the command line's own description: what an option
// or argument is called, and which values the name of its type lists. Pure; thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace histogram::cli {

// A value whose type is called FILE is completed as a file's name; one whose type's name lists
// values (see ListedValues) by these; any other value not at all.
std::string CompletionScript(const CLI::App& app);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
