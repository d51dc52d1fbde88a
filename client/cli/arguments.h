// Checks the values of command line options, and describes a wrong command line in one sentence.
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
#define HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace histogram::cli {

// For Option::transform, since CLI11 would read 010 as 8 and refuses blanks behind a number.
// Messages say what a value must be. They do not change the type name in --help.
CLI::Validator Number(bool zero_too);  // > 0, or 0
CLI::Validator WholeNumber(uint64_t least, uint64_t most);
// 65536, 64KiB or "1 MiB": at most 1 GiB.
CLI::Validator ByteSize();
// For Option::check, with such messages.
CLI::Validator NotEmpty();
CLI::Validator OneOf(std::vector<std::string> names);

// Adds an option or an argument. `type` tells in --help what its value is. An empty text, as of a
// variable that is not set, is an error.
template <typename Value>
CLI::Option* AddValue(CLI::App& app, const char* name, Value& value, const std::string& type,
                      const char* description) {
  CLI::Option* const option = app.add_option(name, value, description)->type_name(type);
  if constexpr (!std::is_arithmetic_v<Value>) option->check(NotEmpty());
  return option;
}
// The same for a value that is one of `names`. Its type is "table|json" for {"table", "json"}.
CLI::Option* AddChoice(CLI::App& app, const char* name, std::string& value,
                       const std::vector<std::string>& names, const char* description);

// The values in an option's type name, in order: the parts between bars that begin with a
// lower-case letter and have no slash. "N|all" gives "all"; "FILE" gives none.
std::vector<std::string> ListedValues(const CLI::Option& option);

// The long names of the options, with their dashes.
std::vector<std::string> OptionNames(const CLI::App& app);
// The names of the program's commands, in their order.
std::vector<std::string> CommandNames(const CLI::App& app);

// The error as one sentence. REQUIRES: app.parse threw `error`.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_ARGUMENTS_H_
