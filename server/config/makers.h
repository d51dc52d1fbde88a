// Makes the SettingValue of a member of Config; for the table in table.cc.
//
//   Bytes([](auto& c) -> auto& { return c.batching.queue_bytes_max; }, {1, 8 * kTiB})
//
// The first argument names the member, of a Config that may be changed and of a constant one.
// Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_MAKERS_H_
#define HISTOGRAM_SERVER_CONFIG_MAKERS_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/config/settings.h"
#include "server/config/values.h"

namespace histogram::server {

// Both inclusive. With `or_zero` 0 is allowed below `min`: it switches the thing off.
struct Range {
  uint64_t min = 0, max = UINT64_MAX;
  bool or_zero = false;
};

inline absl::Status OutOfLimits(absl::string_view limits, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", limits, ", not ", text));
}

// A setting whose text `parse` turns into the member's value, and `format` into text again.
template <typename At, typename Parse, typename Format>
SettingValue Parsed(SettingKind kind, std::string placeholder, At at, Parse parse, Format format) {
  return {.kind = kind,
          .placeholder = std::move(placeholder),
          .limits = {},
          .set = [=](const std::string& text, Config& config) -> absl::Status {
            auto value = parse(text);
            if (!value.ok()) return value.status();
            at(config) = static_cast<std::decay_t<decltype(at(config))>>(*std::move(value));
            return absl::OkStatus();
          },
          .get = [=](const Config& config) { return format(at(config)); },
          .number = {}};
}

template <typename At>
SettingValue Whole(SettingKind kind, std::string placeholder, At at, Range range,
                   absl::StatusOr<uint64_t> (*parse)(absl::string_view),
                   std::string (*format)(uint64_t), double unit) {
  const std::string limits =
      absl::StrCat(range.or_zero ? "0 or " : "", format(range.min), " to ", format(range.max));
  const auto within = [=](const std::string& text) -> absl::StatusOr<uint64_t> {
    const absl::StatusOr<uint64_t> number = parse(text);
    if (!number.ok() || (range.or_zero && *number == 0)) return number;
    if (*number < range.min || *number > range.max) return OutOfLimits(limits, text);
    return number;
  };
  SettingValue value = Parsed(kind, std::move(placeholder), at, within, format);
  value.limits = limits;
  value.number = [=](const Config& config) { return static_cast<double>(at(config)) * unit; };
  return value;
}

template <typename At>
SettingValue Bytes(At at, Range range) {
  return Whole(SettingKind::kBytes, "BYTES", at, range, ParseBytes, FormatBytes, 1);
}

// Of a member in microseconds.
template <typename At>
SettingValue Duration(At at, Range range) {
  return Whole(SettingKind::kDuration, "TIME", at, range, ParseDuration, FormatDuration, 1e-6);
}

template <typename At>
SettingValue Count(At at, Range range) {
  return Whole(SettingKind::kCount, "N", at, range, ParseCount, FormatCount, 1);
}

// A number from 0 to 1.
template <typename At>
SettingValue Fraction(At at) {
  const auto parse = [](const std::string& text) -> absl::StatusOr<double> {
    const absl::StatusOr<double> number = ParseNumber(text);
    if (number.ok() && (*number < 0 || *number > 1)) return OutOfLimits("0 to 1", text);
    return number;
  };
  SettingValue value = Parsed(SettingKind::kText, "FRACTION", at, parse, FormatNumber);
  value.limits = "0 to 1";
  return value;
}

template <typename At>
SettingValue Switch(At at) {
  return Parsed(SettingKind::kSwitch, "", at, ParseBool,
                [](bool value) -> std::string { return value ? "true" : "false"; });
}

template <typename At>
SettingValue Text(At at, std::string placeholder) {
  const auto same = [](const std::string& text) { return absl::StatusOr<std::string>(text); };
  return Parsed(SettingKind::kText, std::move(placeholder), at, same,
                [](const std::string& text) { return text; });
}

// Each value of the member has a name.
template <typename T, typename At>
SettingValue Choice(At at, std::string placeholder, std::vector<std::pair<std::string, T>> names) {
  const std::string limits =
      absl::StrCat("one of ", absl::StrJoin(names, ", ", [](std::string* out, const auto& name) {
                     out->append(name.first);
                   }));
  const auto parse = [=](const std::string& text) -> absl::StatusOr<T> {
    for (const auto& [name, value] : names) {
      if (name == text) return value;
    }
    return OutOfLimits(limits, absl::StrCat("'", text, "'"));
  };
  const auto format = [=](T value) -> std::string {
    for (const auto& [name, named] : names) {
      if (named == value) return name;
    }
    return "";
  };
  SettingValue value = Parsed(SettingKind::kText, std::move(placeholder), at, parse, format);
  value.limits = limits;
  return value;
}

// HOST:PORT; an empty member is written "off".
template <typename At>
SettingValue AddressOrOff(At at) {
  const auto parse = [](const std::string& text) -> absl::StatusOr<std::string> {
    if (text.empty() || text == "off") return "";
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) return address.status();
    if (address->is_unix) return OutOfLimits("HOST:PORT or off", absl::StrCat("'", text, "'"));
    return text;
  };
  return Parsed(SettingKind::kText, "ADDRESS", at, parse,
                [](const std::string& text) { return text.empty() ? "off" : text; });
}

// HOST:PORT, [V6]:PORT or unix:PATH; one at least.
template <typename At>
SettingValue Addresses(At at) {
  using List = std::vector<std::string>;
  const auto parse = [](const std::string& text) -> absl::StatusOr<List> {
    List list = absl::StrSplit(text, ',', absl::SkipEmpty());
    if (list.empty()) return absl::InvalidArgumentError("needs at least one address");
    for (const std::string& one : list) {
      const absl::StatusOr<Address> address = ParseAddress(one);
      if (!address.ok()) return address.status();
    }
    return list;
  };
  return Parsed(SettingKind::kList, "ADDRESS", at, parse,
                [](const List& list) { return absl::StrJoin(list, ","); });
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_MAKERS_H_
