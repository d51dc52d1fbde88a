// Writes numbers, sizes and times for people, and fits text into columns. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_TEXT_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "forms/report.h"

namespace histogram::cli {

std::string FormatCount(uint64_t count);              // 1,234,567
std::string FormatBytes(uint64_t bytes);              // 1.2 MiB
std::string FormatRate(double bytes_per_second);      // 1.2 GB/s
std::string FormatNumber(double number);              // six digits at most, no trailing zeros
std::string FormatShare(uint64_t part, uint64_t of);  // 12.34 %
std::string FormatNanoseconds(uint64_t ns);           // 1.23 ms

// The columns that `text` takes. REQUIRES: valid UTF-8 of single-width characters.
size_t DisplayWidth(absl::string_view text);
std::string PadLeft(absl::string_view text, size_t width);
std::string PadRight(absl::string_view text, size_t width);
// `text` cut to `width` columns, with a mark at the cut.
std::string Truncate(absl::string_view text, size_t width);
// Joins with ", ", breaking into lines of at most `width` columns, each indented by two. Breaks a
// part between its words only where it is longer than a line.
std::string Wrap(const std::vector<std::string>& parts, size_t width);
// `text` from column `indent` on, broken between words if it does not fit. A word that is too long
// for what is left of a line stands on a line of its own.
std::string Hanging(const std::string& text, size_t indent, size_t columns);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_TEXT_H_
