#include "server/config/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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

// What the command line says, before anything is interpreted.
struct CommandLine {
  bool help = false, version = false, print_config = false;
  std::optional<std::string> config_file;
  std::map<std::string, std::vector<std::string>, std::less<>> values;  // by setting
};

std::vector<std::string> AllFlags() {
  std::vector<std::string> flags = {"--help", "--version", "--print-config", "--config"};
  for (const Setting& setting : Settings()) {
    if (setting.hidden) continue;
    flags.push_back(absl::StrCat("--", setting.name));
    if (setting.kind == SettingKind::kSwitch) flags.push_back(absl::StrCat("--no-", setting.name));
  }
  return flags;
}

// CLI11 takes "--flag=" for a flag without its value and would swallow the next argument; two
// arguments, the second empty, say what was meant.
std::vector<std::string> SplitEmptyValues(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument.size() > 3 && absl::StartsWith(argument, "--") &&
        argument.find('=') == argument.size() - 1) {
      arguments.emplace_back(argument.substr(0, argument.size() - 1));
      arguments.emplace_back();
    } else {
      arguments.emplace_back(argument);
    }
  }
  return arguments;
}

absl::Status Unexpected(const std::vector<std::string>& remaining) {
  const auto flag = std::find_if(remaining.begin(), remaining.end(), [](const std::string& text) {
    return text.size() > 1 && text.front() == '-';
  });
  if (flag == remaining.end()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", remaining.front(),
                                                   "'; every setting is a flag, see --help"));
  }
  const std::string name = flag->substr(0, flag->find('='));
  if (name == "--") {
    return absl::InvalidArgumentError(
        "unexpected argument '--'; every setting is a flag, see --help");
  }
  const std::string nearest = Nearest(absl::StrReplaceAll(name, {{"_", "-"}}), AllFlags());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", name,
                   nearest.empty() ? "; --help lists the options" : DidYouMean(nearest)));
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  app.add_flag("-h,--help", line.help);
  app.add_flag("--version", line.version);
  app.add_flag("--print-config", line.print_config);
  CLI::Option* const file =
      app.add_option("--config")->type_size(1)->expected(1)->allow_extra_args(false);
  file->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  std::vector<std::pair<const Setting*, CLI::Option*>> options;
  for (const Setting& setting : Settings()) {
    const std::string flag = absl::StrCat("--", setting.name);
    CLI::Option* option = nullptr;
    if (setting.kind == SettingKind::kSwitch) {
      option = app.add_flag(absl::StrCat(flag, ",!--no-", setting.name));
    } else {
      option = app.add_option(flag)->type_size(1)->expected(1)->allow_extra_args(false);
    }
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    options.emplace_back(&setting, option);
  }

  std::vector<std::string> arguments = SplitEmptyValues(argc, argv);
  if (!arguments.empty()) {
    const std::string& last = arguments.back();
    const Setting* setting =
        absl::StartsWith(last, "--") ? FindSetting(absl::string_view(last).substr(2)) : nullptr;
    const bool needs_value = setting != nullptr && setting->kind != SettingKind::kSwitch;
    if (needs_value || last == "--config") {
      return absl::InvalidArgumentError(absl::StrCat(last, " needs a value: ", last, " ",
                                                     setting ? setting->value_name : "FILE"));
    }
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (line.help || line.version) return line;
  if (const auto remaining = app.remaining(); !remaining.empty()) return Unexpected(remaining);

  for (const auto& [setting, option] : options) {
    if (option->results().empty()) continue;
    if (option->results().size() > 1 && setting->kind != SettingKind::kAddresses) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", setting->name, " is given ", option->results().size(), " times; give it once"));
    }
    line.values.emplace(setting->name, option->results());
  }
  if (file->results().size() > 1) {
    return absl::InvalidArgumentError("--config is given several times; there is one config file");
  }
  if (!file->results().empty()) line.config_file = file->results().front();
  return line;
}

// Applies one layer after the other, the strongest last.
class Layers {
 public:
  absl::Status ApplyFile(const std::string& path) {
    const absl::StatusOr<std::vector<FileEntry>> entries = ReadConfigFile(path);
    if (!entries.ok()) return entries.status();
    for (const FileEntry& entry : *entries) {
      const std::string place = absl::StrCat(path, ":", entry.line);
      const Setting* setting = FindSetting(entry.key);
      if (setting == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": unknown setting ", entry.key,
                                                       DidYouMean(NearestKey(entry.key))));
      }
      if (entry.is_array && setting->kind != SettingKind::kAddresses) {
        return absl::InvalidArgumentError(
            absl::StrCat(place, ": ", entry.key, " takes one value, not a list"));
      }
      const std::string source = absl::StrCat(place, ": ", entry.key);
      absl::Status status = SetFromText(*setting, entry.values, source, config);
      if (!status.ok()) return status;
      origins[std::string(setting->name)] = place;
    }
    return absl::OkStatus();
  }

  // An empty variable counts as not set, which is what composing tools leave behind.
  absl::Status ApplyEnvironment(const Variables& variables) {
    std::map<std::string, const Setting*> known;
    std::vector<std::string> names = {std::string(kConfigVariable)};
    for (const Setting& setting : Settings()) {
      known.emplace(EnvironmentName(setting), &setting);
      if (!setting.hidden) names.push_back(EnvironmentName(setting));
    }
    for (const auto& [name, value] : variables) {
      if (name == kConfigVariable) continue;
      const auto found = known.find(name);
      if (found == known.end()) {
        warnings.push_back(absl::StrCat("unknown environment variable ", name, " is ignored",
                                        DidYouMean(Nearest(name, names))));
        continue;
      }
      if (value.empty()) continue;
      const Setting& setting = *found->second;
      const std::vector<std::string> values = setting.kind == SettingKind::kAddresses
                                                  ? absl::StrSplit(value, ',', absl::SkipEmpty())
                                                  : std::vector<std::string>{value};
      absl::Status status = SetFromText(setting, values, name, config);
      if (!status.ok()) return status;
      origins[std::string(setting.name)] = name;
    }
    return absl::OkStatus();
  }

  absl::Status ApplyFlags(const CommandLine& line) {
    for (const auto& [name, values] : line.values) {
      const Setting* setting = FindSetting(name);
      const std::string flag = absl::StrCat("--", name);
      absl::Status status = SetFromText(*setting, values, flag, config);
      if (!status.ok()) return status;
      origins[name] = flag;
    }
    return absl::OkStatus();
  }

  Config config;
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> warnings;

 private:
  static std::string NearestKey(absl::string_view key) {
    std::vector<std::string> names;
    for (const Setting& setting : Settings()) {
      if (!setting.hidden) names.emplace_back(setting.name);
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
  if (line->help) return Print(HelpText());
  if (line->version) return Print(VersionText());

  const Variables variables = environment.WithPrefix(kPrefix);
  Layers layers;
  if (const std::optional<std::string> file = ConfigFile(*line, variables)) {
    if (absl::Status status = layers.ApplyFile(*file); !status.ok()) return status;
  }
  if (absl::Status status = layers.ApplyEnvironment(variables); !status.ok()) return status;
  if (absl::Status status = layers.ApplyFlags(*line); !status.ok()) return status;
  if (absl::Status status = CheckConfig(layers.config); !status.ok()) return status;

  ParsedConfig parsed;
  if (line->print_config) parsed = Print(PrintConfigText(layers.config, layers.origins));
  parsed.config = std::move(layers.config);
  parsed.warnings = std::move(layers.warnings);
  return parsed;
}

}  // namespace histogram::server
