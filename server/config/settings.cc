#include "server/config/settings.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

template <typename T>
bool Is(const Setting& setting) {
  Config any;
  return std::holds_alternative<T*>(setting.member(any));
}

bool IsWhole(const Setting& setting) { return Is<uint32_t>(setting) || Is<uint64_t>(setting); }

absl::Status OutOfLimits(const Setting& setting, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", LimitsOf(setting), ", not ", text));
}

std::string FormatWhole(ReadAs as, uint64_t value) {
  if (as == ReadAs::kBytes) return FormatBytes(value);
  return as == ReadAs::kDuration ? FormatDuration(value) : absl::StrCat(value);
}

absl::StatusOr<uint64_t> ParseWhole(const Setting& setting, const std::string& text) {
  const absl::StatusOr<uint64_t> value = setting.as == ReadAs::kBytes      ? ParseBytes(text)
                                         : setting.as == ReadAs::kDuration ? ParseDuration(text)
                                                                           : ParseCount(text);
  if (!value.ok() || (setting.limits.or_zero && *value == 0)) return value;
  if (*value < setting.limits.min || *value > setting.limits.max) return OutOfLimits(setting, text);
  return value;
}

absl::StatusOr<double> ParseFraction(const Setting& setting, const std::string& text) {
  const absl::StatusOr<double> value = ParseNumber(text);
  if (value.ok() && (*value < 0 || *value > 1)) return OutOfLimits(setting, text);
  return value;
}

absl::StatusOr<uint8_t> ParseChoice(const Setting& setting, const std::string& text) {
  const auto found = std::find(setting.choices.begin(), setting.choices.end(), text);
  if (found == setting.choices.end()) return OutOfLimits(setting, absl::StrCat("'", text, "'"));
  return static_cast<uint8_t>(found - setting.choices.begin());
}

absl::StatusOr<std::string> ParseText(const Setting& setting, const std::string& text) {
  if (setting.as != ReadAs::kAddress) return text;
  if (text.empty() || text == "off") return "";
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return address.status();
  if (address->is_unix) return OutOfLimits(setting, absl::StrCat("'", text, "'"));
  return text;
}

absl::StatusOr<std::vector<std::string>> ParseAddresses(const std::string& text) {
  std::vector<std::string> list = absl::StrSplit(text, ',', absl::SkipEmpty());
  if (list.empty()) return absl::InvalidArgumentError("needs at least one address");
  for (const std::string& one : list) {
    const absl::StatusOr<Address> address = ParseAddress(one);
    if (!address.ok()) return address.status();
  }
  return list;
}

// Reads `text` as the member's type.
absl::Status SetMember(const Setting& setting, const std::string& text, Member member) {
  return std::visit(
      [&](auto* to) -> absl::Status {
        using T = std::remove_pointer_t<decltype(to)>;
        const auto assign = [&](auto value) -> absl::Status {
          if (!value.ok()) return value.status();
          *to = static_cast<T>(*std::move(value));
          return absl::OkStatus();
        };
        if constexpr (std::is_same_v<T, bool>) {
          return assign(ParseBool(text));
        } else if constexpr (std::is_same_v<T, uint8_t>) {
          return assign(ParseChoice(setting, text));
        } else if constexpr (std::is_same_v<T, double>) {
          return assign(ParseFraction(setting, text));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return assign(ParseText(setting, text));
        } else if constexpr (std::is_integral_v<T>) {
          return assign(ParseWhole(setting, text));
        } else {
          return assign(ParseAddresses(text));
        }
      },
      member);
}

Member MemberOf(const Setting& setting, const Config& config) {
  return setting.member(const_cast<Config&>(config));  // callers only read
}

}  // namespace

const Setting* FindSetting(absl::string_view name) {
  const auto& settings = Settings();
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.name == name || (!setting.old_name.empty() && setting.old_name == name);
  });
  return found == settings.end() ? nullptr : &*found;
}

std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("HISTSVC_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

absl::Status SetFromText(const Setting& setting, const std::string& text, absl::string_view source,
                         Config& config) {
  const absl::Status status = SetMember(setting, text, setting.member(config));
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
          return *from < setting.choices.size() ? setting.choices[*from] : "";
        } else if constexpr (std::is_same_v<T, double>) {
          return FormatNumber(*from);
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
  const double number = std::visit(
      [](const auto* from) -> double {
        if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(*from)>>) {
          return static_cast<double>(*from);
        } else {
          return 0;
        }
      },
      MemberOf(setting, config));
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
  if (!setting.choices.empty()) {
    return absl::StrCat("one of ", absl::StrJoin(setting.choices, ", "));
  }
  if (setting.as == ReadAs::kAddress) return "HOST:PORT or off";
  if (Is<double>(setting)) return "0 to 1";
  if (!IsWhole(setting)) return "";
  const auto& [min, max, or_zero] = setting.limits;
  return absl::StrCat(or_zero ? "0 or " : "", FormatWhole(setting.as, min), " to ",
                      FormatWhole(setting.as, max));
}

}  // namespace histogram::server
