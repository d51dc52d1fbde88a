#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"
#include "client/cli/commands/commands.h"

namespace histogram::cli {
namespace {

// The entries of one command ("": the program) in the script's two tables.
void AddEntries(const CLI::App& app, const std::string& command, std::string& values,
                std::string& words) {
  std::vector<std::string> options;  // but those that the program has, too
  for (const CLI::Option* option : app.get_options()) {
    const bool file = option->get_type_name() == "FILE";
    const std::string value = file ? "FILE" : absl::StrJoin(ListedValues(*option), " ");
    const auto add = [&](const std::string& name) {
      absl::StrAppend(&values, "    [", command, ":", name, "]='", value, "'\n");
    };
    if (option->get_positional()) add("");
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_snames()) {
      if (takes_value) add("-" + name);
    }
    for (const std::string& name : option->get_lnames()) {
      if (takes_value) add("--" + name);
      const CLI::App* const program = app.get_parent();
      const bool own = program == nullptr || program->get_option_no_throw("--" + name) == nullptr;
      if (own) options.push_back("--" + name);
    }
  }
  absl::StrAppend(&words, "    [", command, ":]='", absl::StrJoin(options, " "), "'\n");
}

// What $name is replaced by the parts below. COMP_WORDS has "=" as a word of its own. `values` has
// a key COMMAND:OPTION for each option that takes a value, and COMMAND: for a command's argument.
// `options` has a key COMMAND: for each command. A file, or an option of its own, implies count.
constexpr char kScript[] = R"(# bash completion for $program
$function() {
  local -A values=(
$values  )
  local -A options=(
$options  )
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local command='' skip='' word offered
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $skip ]]; then
      [[ $word == '=' ]] || skip=''
    elif [[ ${values[:$word]+set} ]]; then
      skip=yes
    elif [[ $word && ${options[$word:]+set} ]]; then
      command=$word
      break
    elif [[ $word && " ${options[:]} " != *" $word "* ]]; then
      command=count
      break
    fi
  done
  if [[ ${values[$command:$previous]+set} ]]; then
    offered=${values[$command:$previous]}
  elif [[ ${values[:$previous]+set} ]]; then
    offered=${values[:$previous]}
  elif [[ ! $command ]]; then
    offered=$(compgen -W "$commands ${options[:]}" -- "$current" || true)
    offered=${offered:-FILE}
  elif [[ $current == -* ]]; then
    offered="${options[$command:]} ${options[:]}"
  else
    offered=${values[$command:]-}
  fi
  if [[ $offered == FILE ]]; then
    compopt -o filenames 2> /dev/null || true
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$current")
  fi
}
complete -F $function $program
)";

}  // namespace

std::string CompletionScript(const CLI::App& app) {
  const std::string& program = app.get_name();
  std::string values;
  std::string options;
  AddEntries(app, "", values, options);
  for (const std::string& command : CommandNames(app)) {
    AddEntries(*app.get_subcommand(command), command, values, options);
  }
  return absl::StrReplaceAll(kScript,
                             {{"$program", program},
                              {"$function", "_" + absl::StrReplaceAll(program, {{"-", "_"}})},
                              {"$values", values},
                              {"$options", options},
                              {"$commands", absl::StrJoin(CommandNames(app), " ")}});
}

}  // namespace histogram::cli
