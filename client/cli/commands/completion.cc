#include "client/cli/commands/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace histogram::cli {
namespace {

struct Option {
  std::string name;  // long, without dashes
  std::string description;
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value; empty: a file or free text
};

struct Command {
  std::string name;
  std::string description;
  std::vector<Option> options;
  std::vector<std::string> words;  // that may follow instead of files
};

std::vector<std::string> ChoicesOf(const std::string& command, const std::string& option) {
  if (option != "format") return {};
  if (command == "describe") return {"table", "json"};
  return {"table", "json", "csv", "svg"};
}

std::vector<Option> OptionsOf(const CLI::App& app) {
  std::vector<Option> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    const std::string& name = option->get_lnames()[0];
    options.push_back({name, option->get_description(), option->get_items_expected_max() > 0,
                       ChoicesOf(app.get_name(), name)});
  }
  return options;
}

std::vector<Command> CommandsOf(const CLI::App& app) {
  std::vector<Command> commands;
  const std::vector<Option> common = OptionsOf(app);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Command command = {sub->get_name(), sub->get_description(), OptionsOf(*sub), {}};
    for (const Option& option : common) {
      if (option.name != "help" && option.name != "version") command.options.push_back(option);
    }
    if (command.name == "completion") command.words = {"bash", "zsh", "fish"};
    if (command.name == "health") command.words = {"histogram.v1.HistogramService", "liveness"};
    commands.push_back(std::move(command));
  }
  return commands;
}

bool TakesFiles(const Command& command) {
  return command.name == "count" || command.name == "compute" || command.name == "image";
}

std::string OptionNames(const std::vector<Option>& options) {
  return absl::StrJoin(options, " ", [](std::string* out, const Option& option) {
    absl::StrAppend(out, "--", option.name);
  });
}

std::string CommandNames(const std::vector<Command>& commands) {
  return absl::StrJoin(commands, " ",
                       [](std::string* out, const Command& command) { out->append(command.name); });
}

std::string Quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

std::string BashScript(const std::vector<Command>& commands, const std::vector<Option>& common) {
  std::string script = absl::StrCat(
      "# bash completion for histogram-client:\n"
      "#   source <(histogram-client completion bash)\n"
      "_histogram_client() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in ",
      absl::StrReplaceAll(CommandNames(commands), {{" ", "|"}}),
      ") command=$word; break ;; esac\n  done\n  COMPREPLY=()\n  case $command:$previous in\n");
  for (const Command& command : commands) {
    for (const Option& option : command.options) {
      if (option.choices.empty()) continue;
      absl::StrAppend(&script, "    ", command.name, ":--", option.name,
                      ") COMPREPLY=($(compgen -W '", absl::StrJoin(option.choices, " "),
                      "' -- \"$current\")); return ;;\n");
    }
  }
  script += "  esac\n  case $command in\n";
  for (const Command& command : commands) {
    absl::StrAppend(&script, "    ", command.name, ") COMPREPLY=($(compgen -W '",
                    OptionNames(command.options), command.words.empty() ? "" : " ",
                    absl::StrJoin(command.words, " "), "' -- \"$current\"))");
    if (TakesFiles(command)) {
      script += "\n      [[ $current == -* ]] || COMPREPLY=($(compgen -f -- \"$current\"))";
    }
    script += " ;;\n";
  }
  absl::StrAppend(&script, "    *) COMPREPLY=($(compgen -W '", CommandNames(commands), " ",
                  OptionNames(common), "' -- \"$current\")) ;;\n  esac\n}\n",
                  "complete -o filenames -o bashdefault -F _histogram_client histogram-client\n");
  return script;
}

std::string ZshOption(const Option& option) {
  const std::string text = absl::StrReplaceAll(
      option.description, {{"[", "("}, {"]", ")"}, {":", "\\:"}, {"'", "'\\''"}});
  std::string spec = absl::StrCat("'--", option.name, "[", text, "]");
  if (option.takes_value) {
    absl::StrAppend(&spec, ":", option.name, ":",
                    option.choices.empty()
                        ? std::string("_files")
                        : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")"));
  }
  return spec + "'";
}

std::string ZshScript(const std::vector<Command>& commands) {
  std::string script =
      "#compdef histogram-client\n"
      "# zsh completion: histogram-client completion zsh > \"${fpath[1]}/_histogram-client\"\n"
      "_histogram_client() {\n"
      "  local -a commands=(\n";
  for (const Command& command : commands) {
    absl::StrAppend(&script, "    ", Quoted(command.name + ":" + command.description), "\n");
  }
  script +=
      "  )\n"
      "  local command=${words[(r)(" +
      absl::StrReplaceAll(CommandNames(commands), {{" ", "|"}}) +
      ")]}\n"
      "  case $command in\n";
  for (const Command& command : commands) {
    absl::StrAppend(&script, "    ", command.name, ") _arguments");
    for (const Option& option : command.options) {
      absl::StrAppend(&script, " \\\n      ", ZshOption(option));
    }
    const std::string rest =
        TakesFiles(command) ? "_files" : absl::StrCat("(", absl::StrJoin(command.words, " "), ")");
    absl::StrAppend(&script, " \\\n      '*:argument:", rest, "' ;;\n");
  }
  script +=
      "    *) _describe command commands ;;\n"
      "  esac\n}\n"
      "if [[ $funcstack[1] == _histogram-client ]]; then _histogram_client \"$@\"\n"
      "else compdef _histogram_client histogram-client; fi\n";
  return script;
}

std::string FishScript(const std::vector<Command>& commands, const std::vector<Option>& common) {
  std::string script =
      "# fish completion: histogram-client completion fish | source\n"
      "complete -c histogram-client -f\n";
  const std::string line = "complete -c histogram-client";
  for (const Command& command : commands) {
    absl::StrAppend(&script, line, " -n __fish_use_subcommand -a ", command.name, " -d ",
                    Quoted(command.description), "\n");
  }
  const auto add = [&](const std::string& condition, const Option& option) {
    absl::StrAppend(&script, line, " -n ", Quoted(condition), " -l ", option.name, " -d ",
                    Quoted(option.description));
    if (!option.choices.empty()) {
      absl::StrAppend(&script, " -x -a ", Quoted(absl::StrJoin(option.choices, " ")));
    } else if (option.takes_value) {
      script += " -r -F";
    }
    script += "\n";
  };
  for (const Option& option : common) add("__fish_use_subcommand", option);
  for (const Command& command : commands) {
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const Option& option : command.options) add(condition, option);
    if (TakesFiles(command)) absl::StrAppend(&script, line, " -n ", Quoted(condition), " -F\n");
    if (!command.words.empty()) {
      absl::StrAppend(&script, line, " -n ", Quoted(condition), " -a ",
                      Quoted(absl::StrJoin(command.words, " ")), "\n");
    }
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = CommandsOf(app);
  if (shell == "bash") return BashScript(commands, OptionsOf(app));
  if (shell == "zsh") return ZshScript(commands);
  return FishScript(commands, OptionsOf(app));
}

}  // namespace histogram::cli
