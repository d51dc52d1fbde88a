// Checks the values of command line options, and describes a wrong command line in one sentence.
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
#define HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace histogram::cli {

// For Option::check. Messages say what a value must be. They do not change the type name in --help.
CLI::Validator PositiveNumber();
CLI::Validator NonNegativeNumber();
CLI::Validator WholeNumber(uint64_t least, uint64_t most);
CLI::Validator OneOf(std::vector<std::string> names);

// "table|json" for {"table", "json"}: the type name of an option with a list of values.
std::string TypeNameOf(const std::vector<std::string>& names);
// The values in an option's type name, in order: the parts between bars that begin with a
// lower-case letter and have no slash. "N|all" gives "all"; "FILE" gives none.
std::vector<std::string> ListedValues(const CLI::Option& option);

// The candidate that `text` is probably a misspelling of; empty if none is near.
std::string Nearest(const std::string& text, const std::vector<std::string>& candidates);

// The error as one sentence. REQUIRES: app.parse threw `error`.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

// A warning for each environment variable of `names` that looks like a misspelling of one of this
// program's. Other names with its prefix may belong to the server or to others.
std::vector<std::string> SuspiciousVariables(const std::vector<std::string>& names);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
