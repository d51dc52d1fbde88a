// Checks of what the command line's options are given, and one sentence about a wrong command line.
// Pure functions; thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
#define HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace histogram::cli {

// For Option::check. They say what a value must be, and leave the type's name in --help alone.
CLI::Validator PositiveNumber();
CLI::Validator NonNegativeNumber();
CLI::Validator WholeNumber(uint64_t least, uint64_t most);
CLI::Validator OneOf(std::vector<std::string> names);

// "table|json" of {"table", "json"}: the type's name of an option whose values are listed.
std::string TypeNameOf(const std::vector<std::string>& names);
// The values that the type's name of an option lists, in its order: what stands between bars,
// begins with a small letter and has no slash. "N|all" lists "all", "FILE" nothing.
std::vector<std::string> ListedValues(const CLI::Option& option);

// Of `candidates` the one that `text` was probably meant to be; empty where none is near.
std::string Nearest(const std::string& text, const std::vector<std::string>& candidates);

// One sentence. REQUIRES: app.parse threw `error`.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

// A warning for each of the `names` of environment variables that looks like a mistyped one of this
// program's. Other names with its prefix are the server's, or somebody's.
std::vector<std::string> SuspiciousVariables(const std::vector<std::string>& names);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
