#include "server/config/text.h"

#include <cstddef>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/config/file.h"
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
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, "\n", line_start);
      column = indent;
    } else if (!first) {
      out.push_back(' ');
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out;
}

std::string UnitOf(SettingKind kind) {
  if (kind == SettingKind::kBytes) return "bytes";
  if (kind == SettingKind::kTime) return "microseconds";
  return "";
}

// "how long a batch may wait (microseconds; 0 us to 10 s; default 0 us)"
std::string Explain(const Setting& setting) {
  std::vector<std::string> notes;
  if (const std::string unit = UnitOf(setting.kind); !unit.empty()) notes.push_back(unit);
  if (const std::string limits = LimitsText(setting); !limits.empty()) notes.push_back(limits);
  notes.push_back(absl::StrCat("default ", DisplayText(setting, Config())));
  return absl::StrCat(setting.help, " (", absl::StrJoin(notes, "; "), ")");
}

std::string HelpEntry(absl::string_view flag, absl::string_view text) {
  std::string out = absl::StrCat("  ", flag);
  const std::string indent(kHelpIndent, ' ');
  if (out.size() + 2 > kHelpIndent) {
    absl::StrAppend(&out, "\n", indent);
  } else {
    out.append(kHelpIndent - out.size(), ' ');
  }
  return absl::StrCat(out, Wrap(text, kHelpIndent, indent), "\n");
}

std::string FlagText(const Setting& setting) {
  if (setting.kind == SettingKind::kSwitch) return absl::StrCat("--[no-]", setting.name);
  return absl::StrCat("--", setting.name, " ", setting.value_name);
}

std::string FileValue(const Setting& setting, const Config& config) {
  const std::vector<std::string> values = GetText(setting, config);
  switch (setting.kind) {
    case SettingKind::kText:
    case SettingKind::kChoice:
      return QuoteForFile(values.front());
    case SettingKind::kAddress:
      return QuoteForFile(DisplayText(setting, config));
    case SettingKind::kAddresses:
      return absl::StrCat("[",
                          absl::StrJoin(values, ", ",
                                        [](std::string* out, const std::string& value) {
                                          out->append(QuoteForFile(value));
                                        }),
                          "]");
    default:
      return values.front();
  }
}

}  // namespace

std::string HelpText() {
  std::string out =
      "Usage: histogram-server [FLAG]...\n"
      "Counts the bytes of payloads that clients send over gRPC, and answers with their "
      "histograms.\n"
      "\n"
      "Every setting below can also be an environment variable (HISTSVC_QUEUE_BYTES_MAX; "
      "HISTSVC_LISTEN\n"
      "takes several addresses, separated by commas) or a line of the config file (queue-bytes-max "
      "=\n"
      "\"256MiB\"). Flags win over the environment, which wins over the file. BYTES may end in "
      "KiB, MiB,\n"
      "GiB or TiB; TIME is in microseconds unless it ends in us, ms, s, min or h.\n"
      "\n"
      "General:\n";
  out += HelpEntry("--config FILE", "read settings from this file (also HISTSVC_CONFIG)");
  out += HelpEntry("--print-config",
                   "print the effective configuration, as a file for --config, and exit");
  out += HelpEntry("-h, --help", "print this and exit");
  out += HelpEntry("--version", "print the version and exit");
  absl::string_view group;
  for (const Setting& setting : Settings()) {
    if (setting.hidden) continue;
    if (setting.group != group) {
      group = setting.group;
      absl::StrAppend(&out, "\n", group, ":\n");
    }
    out += HelpEntry(FlagText(setting), Explain(setting));
  }
  return out;
}

std::string VersionText() {
  const BuildInfo& build = GetBuildInfo();
  return absl::StrCat("histogram-server ", build.version, " (commit ", build.commit, ", ",
                      build.compiler, ", ", build.type, ")\n");
}

std::string PrintConfigText(const Config& config,
                            const std::map<std::string, std::string, std::less<>>& origins) {
  std::string out = absl::StrCat("# Effective configuration of histogram-server ",
                                 GetBuildInfo().version, ". Load it with --config FILE.\n");
  absl::string_view group;
  for (const Setting& setting : Settings()) {
    const auto origin = origins.find(setting.name);
    if (setting.hidden && origin == origins.end()) continue;
    if (setting.group != group) {
      group = setting.group;
      absl::StrAppend(&out, "\n# ---- ", group, "\n");
    }
    absl::StrAppend(&out, "\n# ", Wrap(Explain(setting), 2, "# "), "\n");
    if (origin != origins.end()) {
      absl::StrAppend(&out, "# Set by ", absl::CHexEscape(origin->second), ": ",
                      absl::CHexEscape(DisplayText(setting, config)), "\n");
    }
    absl::StrAppend(&out, setting.name, " = ", FileValue(setting, config), "\n");
  }
  return out;
}

}  // namespace histogram::server
