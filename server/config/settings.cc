#include "server/config/settings.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

constexpr std::pair<BackendOptions::Choice, absl::string_view> kBackendNames[] = {
    {BackendOptions::Choice::kAuto, "auto"},
    {BackendOptions::Choice::kCpu, "cpu"},
    {BackendOptions::Choice::kCuda, "cuda"}};

bool IsNumber(SettingKind kind) {
  return kind == SettingKind::kBytes || kind == SettingKind::kTime || kind == SettingKind::kCount ||
         kind == SettingKind::kFraction;
}

std::string FormatValue(SettingKind kind, double value) {
  if (kind == SettingKind::kBytes) return FormatBytes(static_cast<uint64_t>(value));
  if (kind == SettingKind::kTime) return FormatMicroseconds(static_cast<uint64_t>(value));
  if (kind == SettingKind::kCount) return absl::StrCat(static_cast<uint64_t>(value));
  return FormatNumber(value);
}

absl::Status OutOfLimits(const Setting& setting, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", LimitsText(setting), ", not ", value));
}

absl::StatusOr<uint64_t> ParseWhole(SettingKind kind, absl::string_view text) {
  if (kind == SettingKind::kBytes) return ParseBytes(text);
  if (kind == SettingKind::kTime) return ParseMicroseconds(text);
  return ParseCount(text);
}

// Assigns text to the member that a SettingRef points to.
struct Setter {
  const Setting& setting;
  const std::vector<std::string>& values;

  const std::string& text() const { return values.front(); }

  template <typename T>
  absl::Status Whole(T* member) const {
    const absl::StatusOr<uint64_t> value = ParseWhole(setting.kind, text());
    if (!value.ok()) return value.status();
    if (*value > std::numeric_limits<T>::max()) return OutOfLimits(setting, text());
    *member = static_cast<T>(*value);
    return absl::OkStatus();
  }
  absl::Status operator()(uint64_t* member) const { return Whole(member); }
  absl::Status operator()(uint32_t* member) const { return Whole(member); }
  absl::Status operator()(double* member) const {
    const absl::StatusOr<double> value = ParseNumber(text());
    if (value.ok()) *member = *value;
    return value.status();
  }
  absl::Status operator()(bool* member) const {
    const absl::StatusOr<bool> value = ParseBool(text());
    if (value.ok()) *member = *value;
    return value.status();
  }
  absl::Status operator()(std::string* member) const {
    const bool off = setting.kind == SettingKind::kAddress && text() == "off";
    *member = off ? "" : text();
    return absl::OkStatus();
  }
  absl::Status operator()(std::vector<std::string>* member) const {
    *member = values;
    return absl::OkStatus();
  }
  template <typename T, size_t n>
  absl::Status Named(const std::pair<T, absl::string_view> (&names)[n], T* member) const {
    for (const auto& [value, name] : names) {
      if (text() == name) {
        *member = value;
        return absl::OkStatus();
      }
    }
    return OutOfLimits(setting, absl::StrCat("'", text(), "'"));
  }
  absl::Status operator()(BackendOptions::Choice* member) const {
    return Named(kBackendNames, member);
  }
  absl::Status operator()(RequireCuda member) const {
    if (text() != "cuda" && text() != "none") {
      return OutOfLimits(setting, absl::StrCat("'", text(), "'"));
    }
    *member.value = text() == "cuda";
    return absl::OkStatus();
  }
};

// Reads the member that a SettingRef points to.
struct Getter {
  template <typename T, size_t n>
  static std::vector<std::string> Named(const std::pair<T, absl::string_view> (&names)[n],
                                        T value) {
    for (const auto& [named, name] : names) {
      if (named == value) return {std::string(name)};
    }
    return {""};
  }
  template <typename T>
  std::vector<std::string> operator()(T* member) const {
    if constexpr (std::is_same_v<T, double>) {
      return {FormatNumber(*member)};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {*member ? "true" : "false"};
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return *member;
    } else if constexpr (std::is_same_v<T, BackendOptions::Choice>) {
      return Named(kBackendNames, *member);
    } else {
      return {absl::StrCat(*member)};
    }
  }
  std::vector<std::string> operator()(RequireCuda member) const {
    return {*member.value ? "cuda" : "none"};
  }
};

absl::Status CheckNumber(const Setting& setting, double value) {
  const bool off = setting.allow_zero && value == 0;
  const bool inside = value >= setting.minimum && value <= setting.maximum;
  return inside || off ? absl::OkStatus() : OutOfLimits(setting, FormatValue(setting.kind, value));
}

absl::Status CheckAddress(absl::string_view text, bool allow_unix) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return address.status();
  if (address->is_unix && !allow_unix) {
    return absl::InvalidArgumentError(absl::StrCat("must be HOST:PORT or off, not '", text, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckText(const Setting& setting, const std::vector<std::string>& values) {
  if (setting.kind == SettingKind::kAddresses) {
    if (values.empty()) return absl::InvalidArgumentError("needs at least one address");
    for (const std::string& value : values) {
      if (absl::Status status = CheckAddress(value, /*allow_unix=*/true); !status.ok())
        return status;
    }
  }
  if (setting.kind == SettingKind::kAddress && !values.front().empty()) {
    return CheckAddress(values.front(), /*allow_unix=*/false);
  }
  if (setting.kind == SettingKind::kChoice &&
      std::find(setting.choices.begin(), setting.choices.end(), values.front()) ==
          setting.choices.end()) {
    return OutOfLimits(setting, absl::StrCat("'", values.front(), "'"));
  }
  return absl::OkStatus();
}

absl::Status WithSource(const absl::Status& status, absl::string_view source) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(source, " ", status.message())};
}

}  // namespace

const Setting* FindSetting(absl::string_view name) {
  const auto& settings = Settings();
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& s) { return s.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::string EnvironmentName(const Setting& setting) {
  return absl::StrCat("HISTSVC_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(setting.name, {{"-", "_"}})));
}

absl::Status SetFromText(const Setting& setting, const std::vector<std::string>& values,
                         absl::string_view source, Config& config) {
  if (setting.kind != SettingKind::kAddresses && values.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " takes one value, not ", values.size()));
  }
  Config changed = config;
  const absl::Status status = std::visit(Setter{setting, values}, setting.at(changed));
  if (!status.ok()) return WithSource(status, source);
  if (absl::Status limits = CheckLimits(setting, source, changed); !limits.ok()) return limits;
  config = std::move(changed);
  return absl::OkStatus();
}

absl::Status CheckLimits(const Setting& setting, absl::string_view source, const Config& config) {
  if (!IsNumber(setting.kind)) {
    return WithSource(CheckText(setting, GetText(setting, config)), source);
  }
  Config copy = config;  // `at` wants a mutable one; nothing is changed
  const SettingRef ref = setting.at(copy);
  double value = 0;
  if (const auto* whole = std::get_if<uint64_t*>(&ref)) {
    value = static_cast<double>(**whole);
  } else if (const auto* half = std::get_if<uint32_t*>(&ref)) {
    value = static_cast<double>(**half);
  } else if (const auto* fraction = std::get_if<double*>(&ref)) {
    value = **fraction;
  }
  return WithSource(CheckNumber(setting, value), source);
}

std::vector<std::string> GetText(const Setting& setting, const Config& config) {
  Config copy = config;
  return std::visit(Getter{}, setting.at(copy));
}

std::string DisplayText(const Setting& setting, const Config& config) {
  const std::vector<std::string> values = GetText(setting, config);
  if (setting.kind == SettingKind::kAddresses) return absl::StrJoin(values, ", ");
  const std::string& value = values.front();
  switch (setting.kind) {
    case SettingKind::kBytes:
      return FormatBytes(ParseBytes(value).value_or(0));
    case SettingKind::kTime:
      return FormatMicroseconds(ParseMicroseconds(value).value_or(0));
    case SettingKind::kSwitch:
      return value == "true" ? "on" : "off";
    case SettingKind::kAddress:
      return value.empty() ? "off" : value;
    case SettingKind::kText:
      return value.empty() ? "none" : value;
    default:
      return value;
  }
}

std::string LimitsText(const Setting& setting) {
  if (setting.kind == SettingKind::kChoice) {
    return absl::StrCat("one of ", absl::StrJoin(setting.choices, ", "));
  }
  if (!IsNumber(setting.kind)) return "";
  return absl::StrCat(setting.allow_zero ? "0 or " : "", FormatValue(setting.kind, setting.minimum),
                      " to ", FormatValue(setting.kind, setting.maximum));
}

}  // namespace histogram::server
