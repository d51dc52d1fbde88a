#include "server/config/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace histogram::server {
namespace {

constexpr std::array<absl::string_view, 5> kByteUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

absl::Status Wrong(absl::string_view expected, absl::string_view text) {
  return Invalid("must be ", expected, ", not '", text, "'");
}

template <typename T>
std::optional<T> Exactly(absl::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Edits (insert, delete, replace, swap neighbours) between two short names.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      edits[i][j] = std::max(i, j);  // right where one of them is empty
      if (i == 0 || j == 0) continue;
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1,
                              edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
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

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  const std::optional<uint64_t> value = Exactly<uint64_t>(text);
  if (!value) return Wrong("a whole number", text);
  return *value;
}

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  const std::optional<double> value = Exactly<double>(text);
  if (!value || !std::isfinite(*value)) return Wrong("a number such as 0.01", text);
  return *value;
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "true" || lower == "on" || lower == "yes" || lower == "1") return true;
  if (lower == "false" || lower == "off" || lower == "no" || lower == "0") return false;
  return Wrong("true or false", text);
}

std::string FormatBytes(uint64_t bytes) {
  size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < kByteUnits.size(); ++unit) bytes /= 1024;
  return absl::StrCat(bytes, kByteUnits[unit]);
}

std::string FormatDuration(uint64_t microseconds) {
  return absl::FormatDuration(absl::Microseconds(static_cast<int64_t>(microseconds)));
}

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kNameBytesMax = 64;  // longer ones are no typing mistake
  if (name.empty() || name.size() > kNameBytesMax) return "";
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(name, candidate);
    if (distance >= best_distance) continue;
    best = &candidate;
    best_distance = distance;
  }
  for (const std::string& candidate : candidates) {
    if (best == nullptr && absl::StartsWith(candidate, name)) best = &candidate;
  }
  return best == nullptr ? "" : *best;
}

}  // namespace histogram::server
