// Shell completion scripts, written from the command line's own description: an option that is
// added is completed, too. Pure; thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace histogram::cli {

// REQUIRES: shell is bash, zsh or fish.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COMPLETION_H_
