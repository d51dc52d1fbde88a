#include "server/config/settings.h"

#include <histogram/number_text.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace histogram::server {
namespace {

constexpr std::array<absl::string_view, 5> kByteUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

template <typename T>
std::optional<T> Exactly(absl::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
bool Is(const Setting& setting) {
  Config any;
  return std::holds_alternative<T*>(setting.member(any));
}

bool IsWhole(const Setting& setting) { return Is<uint32_t>(setting) || Is<uint64_t>(setting); }

absl::Status OutOfLimits(const Setting& setting, absl::string_view text) {
  return Invalid("must be ", LimitsOf(setting), ", not ", text);
}

std::string FormatWhole(ReadAs as, uint64_t value) {
  if (as == ReadAs::kBytes) return FormatBytes(value);
  return as == ReadAs::kDuration ? FormatDuration(value) : absl::StrCat(value);
}

absl::StatusOr<uint64_t> ParseWhole(ReadAs as, const std::string& text) {
  if (as == ReadAs::kBytes) return ParseBytes(text);
  if (as == ReadAs::kDuration) return ParseDuration(text);
  const std::optional<uint64_t> value = Exactly<uint64_t>(text);
  return value ? absl::StatusOr<uint64_t>(*value) : Wrong("a whole number", text);
}

// Each reads `text` into a member of its type, and leaves it alone on an error.
absl::Status Read(const Setting& /*setting*/, const std::string& text, bool& to) {
  const std::string lower = absl::AsciiStrToLower(text);
  const bool on = lower == "true" || lower == "on" || lower == "yes" || lower == "1";
  const bool off = lower == "false" || lower == "off" || lower == "no" || lower == "0";
  if (!on && !off) return Wrong("true or false", text);
  to = on;
  return absl::OkStatus();
}

absl::Status Read(const Setting& setting, const std::string& text, uint8_t& to) {
  const std::vector<std::string> choices = absl::StrSplit(setting.choices, ", ");
  const auto found = absl::c_find(choices, text);
  if (found == choices.end()) return OutOfLimits(setting, absl::StrCat("'", text, "'"));
  to = static_cast<uint8_t>(found - choices.begin());
  return absl::OkStatus();
}

template <typename Whole>  // uint32_t or uint64_t
absl::Status Read(const Setting& setting, const std::string& text, Whole& to) {
  const absl::StatusOr<uint64_t> value = ParseWhole(setting.as, text);
  if (!value.ok()) return value.status();
  if (*value < setting.limits.min || *value > setting.limits.max) return OutOfLimits(setting, text);
  to = static_cast<Whole>(*value);
  return absl::OkStatus();
}

absl::Status Read(const Setting& setting, const std::string& text, double& to) {
  const std::optional<double> value = Exactly<double>(text);
  if (!value || !std::isfinite(*value)) return Wrong("a number such as 0.01", text);
  if (*value < 0 || *value > 1) return OutOfLimits(setting, text);
  to = *value;
  return absl::OkStatus();
}

absl::Status Read(const Setting& setting, const std::string& text, std::string& to) {
  const bool off = setting.as == ReadAs::kAddress && text == "off";
  if (setting.as == ReadAs::kAddress && !off && !text.empty()) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) return address.status();
    if (address->is_unix) return OutOfLimits(setting, absl::StrCat("'", text, "'"));
  }
  to = off ? "" : text;
  return absl::OkStatus();
}

absl::Status Read(const Setting& /*setting*/, const std::string& text,
                  std::vector<std::string>& to) {
  std::vector<std::string> list = absl::StrSplit(text, ',', absl::SkipEmpty());
  if (list.empty()) return Invalid("needs at least one address");
  for (const std::string& one : list) {
    if (const auto address = ParseAddress(one); !address.ok()) return address.status();
  }
  to = std::move(list);
  return absl::OkStatus();
}

Member MemberOf(const Setting& setting, const Config& config) {
  return setting.member(const_cast<Config&>(config));  // callers only read
}

// --- The texts of --help, --help-all, --version and --print-config.

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

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(text.substr(digits));
  const auto known = absl::c_find_if(kByteUnits, [&](absl::string_view u) {
    return absl::EqualsIgnoreCase(u, unit.empty() ? "B" : unit);
  });
  if (digits == 0 || known == kByteUnits.end()) {
    return Wrong("a number of bytes such as 65536, 64KiB or 1GiB", text);
  }
  const std::optional<uint64_t> number = Exactly<uint64_t>(text.substr(0, digits));
  const uint64_t factor = uint64_t{1} << (10 * (known - kByteUnits.begin()));
  uint64_t bytes = 0;
  if (!number || __builtin_mul_overflow(*number, factor, &bytes)) {
    return Wrong("a number of bytes below 16 EiB", text);
  }
  return bytes;
}

absl::StatusOr<uint64_t> ParseDuration(absl::string_view text) {
  constexpr absl::string_view kExpected =
      "a time with its unit, such as 200us, 5ms, 1.5s, 30m or 2h";
  if (Exactly<double>(text).value_or(0) != 0) {
    return Invalid("must be ", kExpected, "; '", text, "' has no unit");
  }
  std::string compact = absl::StrReplaceAll(text, {{" ", ""}});
  if (absl::EndsWith(compact, "min")) compact.resize(compact.size() - 2);
  absl::Duration duration;
  if (!absl::ParseDuration(compact, &duration) || duration < absl::ZeroDuration()) {
    return Wrong(kExpected, text);
  }
  if (duration > absl::Hours(24 * 365 * 285)) return Wrong("a time below 285 years", text);
  if (duration != absl::Trunc(duration, absl::Microseconds(1))) {
    return Wrong("a whole number of microseconds", text);
  }
  return static_cast<uint64_t>(absl::ToInt64Microseconds(duration));
}

std::string FormatBytes(uint64_t bytes) {
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < kByteUnits.size(); ++unit) bytes /= 1024;
  return absl::StrCat(bytes, kByteUnits[unit]);
}

std::string FormatDuration(uint64_t microseconds) {
  return absl::FormatDuration(absl::Microseconds(static_cast<int64_t>(microseconds)));
}

const Setting* FindSetting(absl::string_view name) {
  for (const Setting& setting : Settings()) {
    if (name == setting.name) return &setting;
  }
  return nullptr;
}

std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("HISTSVC_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

absl::Status SetFromText(const Setting& setting, const std::string& text, absl::string_view source,
                         Config& config) {
  const absl::Status status =
      std::visit([&](auto* to) { return Read(setting, text, *to); }, setting.member(config));
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(source, " ", status.message())};
}

std::string TextOf(const Setting& setting, const Config& config) {
  return std::visit(
      [&](const auto* from) -> std::string {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(from)>>;
        if constexpr (std::is_same_v<T, bool>) {
          return *from ? "true" : "false";
        } else if constexpr (std::is_same_v<T, uint8_t>) {
          const std::vector<std::string> choices = absl::StrSplit(setting.choices, ", ");
          return *from < choices.size() ? choices[*from] : "";
        } else if constexpr (std::is_same_v<T, double>) {
          return NumberText(*from);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return setting.as == ReadAs::kAddress && from->empty() ? "off" : *from;
        } else if constexpr (std::is_integral_v<T>) {
          return FormatWhole(setting.as, *from);
        } else {
          return absl::StrJoin(*from, ",");
        }
      },
      MemberOf(setting, config));
}

std::string DisplayText(const Setting& setting, const Config& config) {
  const std::string text = TextOf(setting, config);
  if (IsSwitch(setting)) return text == "true" ? "on" : "off";
  return text.empty() ? "none" : text;
}

std::optional<double> NumberOf(const Setting& setting, const Config& config) {
  if (!IsWhole(setting)) return std::nullopt;
  const Member member = MemberOf(setting, config);
  const auto* const* narrow = std::get_if<uint32_t*>(&member);
  const auto number = static_cast<double>(narrow ? **narrow : *std::get<uint64_t*>(member));
  return setting.as == ReadAs::kDuration ? number * 1e-6 : number;
}

bool IsSwitch(const Setting& setting) { return Is<bool>(setting); }
bool IsList(const Setting& setting) { return Is<std::vector<std::string>>(setting); }

absl::string_view PlaceholderOf(const Setting& setting) {
  if (!setting.placeholder.empty()) return setting.placeholder;
  if (setting.as == ReadAs::kBytes) return "BYTES";
  if (setting.as == ReadAs::kDuration) return "TIME";
  if (setting.as == ReadAs::kAddress || IsList(setting)) return "ADDRESS";
  if (Is<double>(setting)) return "FRACTION";
  if (IsWhole(setting)) return "N";
  return IsSwitch(setting) ? "" : "NAME";
}

std::string LimitsOf(const Setting& setting) {
  if (!setting.choices.empty()) return absl::StrCat("one of ", setting.choices);
  if (setting.as == ReadAs::kAddress) return "HOST:PORT or off";
  if (Is<double>(setting)) return "0 to 1";
  if (!IsWhole(setting)) return "";
  return absl::StrCat(FormatWhole(setting.as, setting.limits.min), " to ",
                      FormatWhole(setting.as, setting.limits.max));
}

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
