#include "server/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/config/build.h"
#include "server/config/file.h"
#include "server/config/settings.h"
#include "server/config/text.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

constexpr absl::string_view kPrefix = "HISTSVC_";
constexpr absl::string_view kConfigVariable = "HISTSVC_CONFIG";

using Variables = std::vector<std::pair<std::string, std::string>>;

class ProcessEnvironment final : public EnvironmentReader {
 public:
  Variables WithPrefix(absl::string_view prefix) const override {
    Variables variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const absl::string_view text = *entry;
      const size_t equals = text.find('=');
      if (equals == absl::string_view::npos || !absl::StartsWith(text, prefix)) continue;
      variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
  }
};

std::string DidYouMean(const std::string& nearest) {
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

// A setting as one source gives it.
struct Assignment {
  const Setting* setting;
  std::string value;
  std::string source;     // "--listen", "HISTSVC_LISTEN", "server.toml:3: listen"
  std::string origin;     // "--listen", "HISTSVC_LISTEN", "server.toml:3"
  std::string name;       // "--listen", "HISTSVC_LISTEN", "listen": never an old name
  bool old_name = false;  // `source` uses the setting's old name
};

// What the command line says, before any value is interpreted.
struct CommandLine {
  enum class Print { kNothing, kHelp, kHelpAll, kVersion, kConfig };
  Print print = Print::kNothing;
  std::optional<std::string> config_file;
  std::vector<Assignment> assignments;
};

absl::Status UnknownFlag(absl::string_view name) {
  std::vector<std::string> flags = {"--help", "--help-all", "--version", "--print-config",
                                    "--config"};
  for (const Setting& setting : Settings()) {
    if (setting.listed == Listed::kNowhere) continue;
    flags.push_back(absl::StrCat("--", setting.name));
    if (IsSwitch(setting)) {
      flags.push_back(absl::StrCat("--no-", setting.name));
    }
  }
  const std::string nearest = Nearest(absl::StrReplaceAll(name, {{"_", "-"}}), flags);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", name,
                   nearest.empty() ? "; --help-all lists the options" : DidYouMean(nearest)));
}

// The setting that a flag names, and the value that the flag itself implies: --tune, --no-tune.
std::pair<const Setting*, std::optional<std::string>> FindFlag(absl::string_view flag) {
  if (!absl::ConsumePrefix(&flag, "--")) return {nullptr, std::nullopt};
  const Setting* setting = FindSetting(flag);
  if (setting != nullptr && IsSwitch(*setting)) return {setting, "true"};
  if (setting != nullptr) return {setting, std::nullopt};
  if (absl::ConsumePrefix(&flag, "no-")) setting = FindSetting(flag);
  if (setting != nullptr && !IsSwitch(*setting)) setting = nullptr;
  return {setting, "false"};
}

CommandLine::Print WhatToPrint(const std::vector<absl::string_view>& arguments) {
  using Print = CommandLine::Print;
  const std::pair<absl::string_view, Print> flags[] = {{"--help", Print::kHelp},
                                                       {"-h", Print::kHelp},
                                                       {"--help-all", Print::kHelpAll},
                                                       {"--version", Print::kVersion},
                                                       {"--print-config", Print::kConfig}};
  for (const auto& [flag, print] : flags) {
    if (std::find(arguments.begin(), arguments.end(), flag) != arguments.end()) return print;
  }
  return Print::kNothing;
}

// Adds a flag's value. Only lists take several.
absl::Status AddValue(const Setting& setting, absl::string_view flag, std::string value,
                      CommandLine& line) {
  const auto same = std::find_if(line.assignments.begin(), line.assignments.end(),
                                 [&](const Assignment& a) { return a.setting == &setting; });
  if (same == line.assignments.end()) {
    line.assignments.push_back({.setting = &setting,
                                .value = std::move(value),
                                .source = std::string(flag),
                                .origin = std::string(flag),
                                .name = absl::StrCat("--", setting.name),
                                .old_name = absl::StripPrefix(flag, "--") == setting.old_name});
  } else if (IsList(setting)) {
    absl::StrAppend(&same->value, ",", value);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--", setting.name, " is given twice; give it once"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const std::vector<absl::string_view> arguments(argv + std::min(argc, 1), argv + argc);
  CommandLine line;
  line.print = WhatToPrint(arguments);
  if (line.print != CommandLine::Print::kNothing && line.print != CommandLine::Print::kConfig) {
    return line;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--print-config") continue;
    const absl::string_view flag = arguments[i].substr(0, arguments[i].find('='));
    const bool has_value = flag.size() < arguments[i].size();
    if (flag.size() < 2 || flag.front() != '-' || flag == "--") {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", arguments[i],
                                                     "'; every setting is a flag, see --help"));
    }
    const auto [setting, implied] = FindFlag(flag);
    if (setting == nullptr && flag != "--config") return UnknownFlag(flag);
    std::string value;
    if (has_value && implied == "false") {
      return absl::InvalidArgumentError(absl::StrCat(flag, " takes no value"));
    }
    if (has_value) {
      value = std::string(arguments[i].substr(flag.size() + 1));
    } else if (setting != nullptr && implied) {
      value = *implied;
    } else if (i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      value = std::string(arguments[++i]);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " needs a value: ", flag, " ",
                       setting == nullptr ? "FILE" : PlaceholderOf(*setting)));
    }
    if (setting != nullptr) {
      if (absl::Status status = AddValue(*setting, flag, std::move(value), line); !status.ok()) {
        return status;
      }
    } else if (line.config_file) {
      return absl::InvalidArgumentError("--config is given twice; there is one config file");
    } else {
      line.config_file = std::move(value);
    }
  }
  return line;
}

// Applies one layer after the other, the strongest last.
class Layers {
 public:
  absl::Status ApplyFile(const std::string& path) {
    const absl::StatusOr<std::vector<FileEntry>> entries = ReadConfigFile(path);
    if (!entries.ok()) return entries.status();
    std::vector<Assignment> layer;
    for (const FileEntry& entry : *entries) {
      const std::string place = absl::StrCat(path, ":", entry.line);
      const std::string source = absl::StrCat(place, ": ", entry.key);
      const Setting* setting = FindSetting(entry.key);
      if (setting == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": unknown setting ", entry.key,
                                                       DidYouMean(NearestKey(entry.key))));
      }
      if (entry.is_array && !IsList(*setting)) {
        return absl::InvalidArgumentError(absl::StrCat(source, " takes one value, not a list"));
      }
      layer.push_back({.setting = setting,
                       .value = absl::StrJoin(entry.values, ","),
                       .source = source,
                       .origin = place,
                       .name = std::string(setting->name),
                       .old_name = entry.key == setting->old_name});
    }
    return Apply(std::move(layer));
  }

  // An empty variable counts as not set, which is what composing tools leave behind.
  absl::Status ApplyEnvironment(const Variables& variables) {
    std::vector<Assignment> layer;
    for (const auto& [variable, value] : variables) {
      if (variable == kConfigVariable) continue;
      const std::string name =
          absl::AsciiStrToLower(absl::StrReplaceAll(variable.substr(kPrefix.size()), {{"_", "-"}}));
      const Setting* setting = FindSetting(name);
      if (setting == nullptr || EnvironmentName(name) != variable) {
        const std::string nearest = NearestKey(name);
        warnings.push_back(
            absl::StrCat("unknown environment variable ", variable, " is ignored",
                         DidYouMean(nearest.empty() ? "" : EnvironmentName(nearest))));
        continue;
      }
      if (value.empty()) continue;
      layer.push_back({.setting = setting,
                       .value = value,
                       .source = variable,
                       .origin = variable,
                       .name = EnvironmentName(setting->name),
                       .old_name = name == setting->old_name});
    }
    return Apply(std::move(layer));
  }

  // A layer gives a setting once; a bare number under an old name is microseconds.
  absl::Status Apply(std::vector<Assignment> layer) {
    std::set<const Setting*> seen;
    for (Assignment& assignment : layer) {
      const Setting& setting = *assignment.setting;
      if (!seen.insert(&setting).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(assignment.name, " is given under its old name too; give it once"));
      }
      if (assignment.old_name) {
        warnings.push_back(absl::StrCat(assignment.source, " is now called ", assignment.name,
                                        ", and its value has a unit (", assignment.name,
                                        "=30s); the next version refuses the old name"));
        if (ParseCount(assignment.value).ok()) assignment.value += "us";
      }
      absl::Status status = SetFromText(setting, assignment.value, assignment.source, config);
      if (!status.ok()) return status;
      origins[std::string(setting.name)] = assignment.origin;
    }
    return absl::OkStatus();
  }

  Config config;
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> warnings;

 private:
  static std::string NearestKey(absl::string_view key) {
    std::vector<std::string> names = {"config"};
    for (const Setting& setting : Settings()) {
      if (setting.listed != Listed::kNowhere) names.emplace_back(setting.name);
    }
    return Nearest(absl::StrReplaceAll(key, {{"_", "-"}}), names);
  }
};

std::optional<std::string> ConfigFile(const CommandLine& line, const Variables& variables) {
  if (line.config_file) return line.config_file;
  for (const auto& [name, value] : variables) {
    if (name == kConfigVariable && !value.empty()) return value;
  }
  return std::nullopt;
}

ParsedConfig Print(std::string text) {
  ParsedConfig parsed;
  parsed.action = ParsedConfig::Action::kPrint;
  parsed.text = std::move(text);
  return parsed;
}

}  // namespace

const EnvironmentReader& EnvironmentReader::Process() {
  static const ProcessEnvironment environment;
  return environment;
}

const BuildInfo& GetBuildInfo() {
  static const BuildInfo info = {HISTOGRAM_BUILD_VERSION, HISTOGRAM_BUILD_COMMIT,
                                 HISTOGRAM_BUILD_COMPILER, HISTOGRAM_BUILD_TYPE};
  return info;
}

absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const EnvironmentReader& environment) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return line.status();
  switch (line->print) {
    case CommandLine::Print::kHelp:
      return Print(HelpText(/*all=*/false));
    case CommandLine::Print::kHelpAll:
      return Print(HelpText(/*all=*/true));
    case CommandLine::Print::kVersion:
      return Print(VersionText());
    case CommandLine::Print::kConfig:
    case CommandLine::Print::kNothing:
      break;
  }

  const Variables variables = environment.WithPrefix(kPrefix);
  Layers layers;
  if (const std::optional<std::string> file = ConfigFile(*line, variables)) {
    if (absl::Status status = layers.ApplyFile(*file); !status.ok()) return status;
  }
  if (absl::Status status = layers.ApplyEnvironment(variables); !status.ok()) return status;
  if (absl::Status status = layers.Apply(line->assignments); !status.ok()) return status;
  if (absl::Status status = CheckConfig(layers.config); !status.ok()) return status;

  ParsedConfig parsed;
  if (line->print == CommandLine::Print::kConfig) {
    parsed = Print(PrintConfigText(layers.config, layers.origins));
  }
  for (const auto& [name, origin] : layers.origins) {
    parsed.settings.push_back({name, DisplayText(*FindSetting(name), layers.config), origin});
  }
  parsed.config = std::move(layers.config);
  parsed.warnings = std::move(layers.warnings);
  return parsed;
}

}  // namespace histogram::server
