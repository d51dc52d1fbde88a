// The texts of --help, --help-all, --version and --print-config.
#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kHelpIndent = 35;

// Breaks `text` at spaces into lines that fit beside an indent.
std::string Wrap(absl::string_view text, size_t indent, absl::string_view line_start) {
  std::string out;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, "\n", line_start);
      column = indent;
    } else if (column > indent) {
      out.push_back(' ');
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out;
}

// "how long a batch may wait (0 to 10s; default 0)"
std::string Explain(const Setting& setting) {
  const std::string limits = LimitsOf(setting);
  return absl::StrCat(setting.help, " (", limits, limits.empty() ? "" : "; ", "default ",
                      DisplayText(setting, Config()), ")");
}

std::string HelpEntry(absl::string_view flag, absl::string_view text) {
  std::string out = absl::StrCat("  ", flag);
  const std::string indent(kHelpIndent, ' ');
  if (out.size() + 2 > kHelpIndent) absl::StrAppend(&out, "\n", indent);
  if (out.size() < kHelpIndent) out.resize(kHelpIndent, ' ');
  return absl::StrCat(out, Wrap(text, kHelpIndent, indent), "\n");
}

}  // namespace

std::string HelpText(bool all) {
  std::string out = absl::StrCat(
      "Usage: histogram-server [FLAG]...\n"
      "Counts the samples of payloads that clients send over gRPC or HTTP.\n"
      "\n"
      "Flags win over environment variables (HISTSVC_QUEUE_BYTES_MAX=256MiB; HISTSVC_LISTEN takes\n"
      "several addresses, separated by commas), which win over the config file (queue-bytes-max =\n"
      "\"256MiB\"). BYTES may end in KiB, MiB, GiB or TiB. TIME has a unit: 200us, 5ms, 1.5s, 30m, "
      "2h.\n\nGeneral:\n",
      HelpEntry("--config FILE", "read settings from this file (also HISTSVC_CONFIG)"),
      HelpEntry("--print-config",
                "print the configuration in force, as a file for --config, and exit"),
      HelpEntry("-h, --help",
                all ? "print the settings that matter most, and exit" : "print this and exit"),
      HelpEntry("--help-all", all ? "print this and exit" : "print more settings and exit"),
      HelpEntry("--version", "print the version and exit"));
  for (const Setting& setting : Settings()) {
    if (!setting.group.empty()) absl::StrAppend(&out, "\n", setting.group, ":\n");
    if (setting.listed == Listed::kHelp || (all && setting.listed == Listed::kHelpAll)) {
      const absl::string_view value = PlaceholderOf(setting);  // none of a switch
      out += HelpEntry(absl::StrCat(value.empty() ? "--[no-]" : "--", setting.name,
                                    value.empty() ? "" : " ", value),
                       Explain(setting));
    }
  }
  return out;
}

std::string VersionText() {
  const BuildInfo& build = GetBuildInfo();
  return absl::StrCat("histogram-server ", build.version, " (commit ", build.commit, ", ",
                      build.compiler, ", ", build.type, ")\n");
}

std::string PrintConfigText(const ParsedConfig& parsed) {
  std::string out = absl::StrCat("# Effective configuration of histogram-server ",
                                 GetBuildInfo().version, ". Load it with --config FILE.\n");
  for (const Setting& setting : Settings()) {
    if (!setting.group.empty()) absl::StrAppend(&out, "\n# ---- ", setting.group, "\n");
    const auto origin = parsed.origins.find(setting.name);
    if (setting.listed == Listed::kUnlisted && origin == parsed.origins.end()) continue;
    absl::StrAppend(&out, "\n# ", Wrap(Explain(setting), 2, "# "), "\n");
    if (origin != parsed.origins.end()) {
      absl::StrAppend(&out, "# Set by ", absl::CHexEscape(origin->second), ": ",
                      absl::CHexEscape(DisplayText(setting, parsed.config)), "\n");
    }
    const std::string text = TextOf(setting, parsed.config);
    double number = 0;
    const bool bare = IsSwitch(setting) || absl::SimpleAtod(text, &number);  // as in TOML
    absl::StrAppend(&out, setting.name, " = ",
                    bare ? text : absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""), "\n");
  }
  return out;
}

}  // namespace histogram::server
