#include "client/cli/commands/completion.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"

namespace histogram::cli {
namespace {

constexpr char kFileType[] = "FILE";

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "--output" and "-o".
std::vector<std::string> Names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_positional(); });
}

std::vector<const CLI::Option*> ArgumentsOf(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

// What completes a value of this option; empty: nothing does.
std::string ValueOf(const CLI::Option& option) {
  if (option.get_type_name() == kFileType) return "__histogram_files";
  const std::vector<std::string> values = ListedValues(option);
  return values.empty() ? "" : absl::StrCat("__histogram_words '", absl::StrJoin(values, " "), "'");
}

// The branches of a case over "COMMAND:OPTION": what follows an option that takes a value.
std::string ValueBranches(const CLI::App& app, const std::string& command) {
  std::string script;
  for (const CLI::Option* option : OptionsOf(app)) {
    if (!TakesValue(*option)) continue;
    const std::string patterns =
        absl::StrJoin(Names(*option), "|", [&](std::string* out, const std::string& name) {
          absl::StrAppend(out, command, ":", name);
        });
    const std::string value = ValueOf(*option);
    absl::StrAppend(&script, "    ", patterns, ") ", value, value.empty() ? "" : "; ",
                    "return ;;\n");
  }
  return script;
}

// Of all options of these, each name once.
std::string LongNames(const std::vector<const CLI::App*>& apps) {
  std::vector<std::string> names;
  for (const CLI::App* app : apps) {
    for (const CLI::Option* option : OptionsOf(*app)) {
      for (const std::string& name : option->get_lnames()) {
        const bool known = std::find(names.begin(), names.end(), "--" + name) != names.end();
        if (!known) names.push_back("--" + name);
      }
    }
  }
  return absl::StrJoin(names, " ");
}

// Options that take a value, whatever the command: the word after one is no command.
std::string OptionsWithValue(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : OptionsOf(app)) {
    if (!TakesValue(*option)) continue;
    for (const std::string& name : Names(*option)) names.push_back(name);
  }
  return absl::StrJoin(names, "|");
}

// The branch of one command: its options after a dash, else its arguments.
std::string CommandBranch(const CLI::App& app, const CLI::App& command) {
  std::string script =
      absl::StrCat("    ", command.get_name(),
                   ")\n      if [[ $current == -* ]]; then\n        __histogram_words '",
                   LongNames({&command, &app}), "'\n");
  std::vector<std::string> values;
  for (const CLI::Option* argument : ArgumentsOf(command)) {
    if (std::string value = ValueOf(*argument); !value.empty()) values.push_back(std::move(value));
  }
  if (!values.empty()) {
    absl::StrAppend(&script, "      else\n        ", absl::StrJoin(values, "\n        "), "\n");
  }
  return script + "      fi ;;\n";
}

// What $name is replaced by the parts below. COMP_WORDS has "=" as a word of its own.
constexpr char kScript[] = R"(# bash completion for $program
__histogram_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
__histogram_files() {
  compopt -o filenames 2> /dev/null || true
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
$function() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local command='' skip='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $skip ]]; then
      [[ $word == '=' ]] || skip=''
      continue
    fi
    case $word in
      $valued) skip=yes ;;
      $commands) command=$word && break ;;
    esac
  done
  COMPREPLY=()
  case $command:$previous in
$values  esac
  case $command in
$branches    *)
      __histogram_words '$names'
      [[ ${#COMPREPLY[@]} -gt 0 ]] || __histogram_files ;;
  esac
}
complete -F $function $program
)";

}  // namespace

std::string CompletionScript(const CLI::App& app) {
  const std::string program = app.get_name();
  std::vector<std::string> commands;
  std::string values;
  std::string branches;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
    values += ValueBranches(*command, command->get_name());
    branches += CommandBranch(app, *command);
  }
  values += ValueBranches(app, "*");
  return absl::StrReplaceAll(kScript,
                             {{"$program", program},
                              {"$function", "_" + absl::StrReplaceAll(program, {{"-", "_"}})},
                              {"$valued", OptionsWithValue(app)},
                              {"$commands)", absl::StrJoin(commands, "|") + ")"},
                              {"$values", values},
                              {"$branches", branches},
                              {"$names", absl::StrJoin(commands, " ") + " " + LongNames({&app})}});
}

}  // namespace histogram::cli
