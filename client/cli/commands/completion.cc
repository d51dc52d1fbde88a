#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/commands/commands.h"

namespace histogram::cli {

std::string CompletionScript(const CLI::App& program) {
  const std::string& name = program.get_name();
  return absl::StrCat("complete -o default -C '", name, " completion' ", name, "\n");
}

std::string Completions(const CLI::App& program, absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" ="));
  const std::vector<std::string> commands = CommandNames(program);
  const CLI::App* command = &program;
  const CLI::Option* wanting = nullptr;  // the option whose value comes next
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i].empty() || std::exchange(wanting, nullptr) != nullptr) continue;
    const CLI::Option* option = program.get_option_no_throw(words[i]);
    if (option == nullptr && command == &program) {
      // A file, or an option of its own, implies count.
      const bool named = std::find(commands.begin(), commands.end(), words[i]) != commands.end();
      command = program.get_subcommand(named ? words[i] : "count");
    }
    if (option == nullptr) option = command->get_option_no_throw(words[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) wanting = option;
  }
  std::set<std::string> offered;
  const auto offer = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (absl::StartsWith(name, words.back())) offered.insert(name + "\n");
    }
  };
  if (wanting != nullptr) {
    offer(ListedValues(*wanting));
  } else if (command == &program || absl::StartsWith(words.back(), "-")) {
    offer(OptionNames(program));
    offer(command == &program ? commands : OptionNames(*command));
  } else {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional()) offer(ListedValues(*option));
    }
  }
  return absl::StrJoin(offered, "");
}

}  // namespace histogram::cli
