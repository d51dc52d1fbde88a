#include "client/cli/render/text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace histogram::cli {
namespace {

std::string Scaled(double value, double base, absl::Span<const char* const> units) {
  size_t unit = 0;
  while (value >= base * 0.9995 && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s", digits, value, units[unit]);
}

}  // namespace

std::string FormatCount(uint64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string FormatBytes(uint64_t bytes) {
  return Scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string FormatRate(double bytes_per_second) {
  return Scaled(bytes_per_second, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"});
}

std::string FormatNumber(double number) { return absl::StrFormat("%g", number); }

std::string FormatShare(uint64_t part, uint64_t of) {
  if (of == 0) return "-";
  return absl::StrFormat("%.2f %%", 100.0 * static_cast<double>(part) / static_cast<double>(of));
}

std::string FormatNanoseconds(uint64_t ns) {
  return Scaled(static_cast<double>(ns), 1000, {"ns", "µs", "ms", "s"});
}

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++width;
  }
  return width;
}

std::string PadLeft(absl::string_view text, size_t width) {
  const size_t have = DisplayWidth(text);
  return absl::StrCat(std::string(have < width ? width - have : 0, ' '), text);
}

std::string PadRight(absl::string_view text, size_t width) {
  const size_t have = DisplayWidth(text);
  return absl::StrCat(text, std::string(have < width ? width - have : 0, ' '));
}

std::string Truncate(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t keep = width - 1;
  size_t end = 0;
  while (end < text.size()) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && keep-- == 0) break;
    ++end;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

std::string Wrap(const std::vector<std::string>& parts, size_t width) {
  constexpr char kUnbroken[] = "\x01";  // a blank within a part; no text that is shown has it
  std::string text;
  for (const std::string& part : parts) {
    const bool fits = DisplayWidth(part) + 3 <= width;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    fits ? absl::StrReplaceAll(part, {{" ", kUnbroken}}) : part);
  }
  if (text.empty()) return "";
  return absl::StrReplaceAll(absl::StrCat("  ", Hanging(text, 2, width), "\n"), {{kUnbroken, " "}});
}

std::string Hanging(const std::string& text, size_t indent, size_t columns) {
  if (indent + DisplayWidth(text) <= columns) return text;
  std::string result;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t width = DisplayWidth(word);
    if (!result.empty() && column + 1 + width <= columns) {
      absl::StrAppend(&result, " ", word);
      column += 1 + width;
    } else if (!result.empty() || indent + width > columns) {
      const size_t margin = indent + width > columns ? 4 : indent;
      absl::StrAppend(&result, "\n", std::string(margin, ' '), word);
      column = margin + width;
    } else {
      absl::StrAppend(&result, word);
      column += width;
    }
  }
  return result;
}

}  // namespace histogram::cli
