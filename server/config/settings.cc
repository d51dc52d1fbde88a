#include "server/config/settings.h"

#include <histogram/number_text.h>

#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
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
  return Invalid("must be ", LimitsOf(setting), ", not ", text);
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

// Each reads `text` into a member of its type, and leaves it alone on an error.
absl::Status Read(const Setting& /*setting*/, const std::string& text, bool& to) {
  const absl::StatusOr<bool> value = ParseBool(text);
  to = value.value_or(to);
  return value.status();
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
  const absl::StatusOr<uint64_t> value = ParseWhole(setting, text);
  to = static_cast<Whole>(value.value_or(to));
  return value.status();
}

absl::Status Read(const Setting& setting, const std::string& text, double& to) {
  const absl::StatusOr<double> value = ParseNumber(text);
  if (value.ok() && (*value < 0 || *value > 1)) return OutOfLimits(setting, text);
  to = value.value_or(to);
  return value.status();
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

}  // namespace

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
  const auto& [min, max, or_zero] = setting.limits;
  return absl::StrCat(or_zero ? "0 or " : "", FormatWhole(setting.as, min), " to ",
                      FormatWhole(setting.as, max));
}

}  // namespace histogram::server
