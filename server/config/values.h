// Values of settings as text: parsed strictly, formatted for people. Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_VALUES_H_
#define HISTOGRAM_SERVER_CONFIG_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/address.h"

namespace histogram::server {

// Each parser answers INVALID_ARGUMENT with the rest of a sentence that starts with the setting's
// name: "must be a number of bytes such as 65536, 64KiB or 1GiB, not '12 parsecs'".

// Digits alone, or with B, KiB, MiB, GiB or TiB (any case). 64 bits.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// Microseconds: decimal numbers with us, ms, s, m (min) or h, such as 1.5s or 1h30m; 0 needs no
// unit.
absl::StatusOr<uint64_t> ParseDuration(absl::string_view text);
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);
// A finite decimal number.
absl::StatusOr<double> ParseNumber(absl::string_view text);
// true, false, on, off, yes, no, 1, 0 (any case).
absl::StatusOr<bool> ParseBool(absl::string_view text);

// These write what the parsers read.
std::string FormatBytes(uint64_t bytes);            // "64MiB", "1000B"
std::string FormatDuration(uint64_t microseconds);  // "3s", "1.5ms", "30m", "0"

// The candidate that `name` most likely meant; empty when none is near.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_VALUES_H_
