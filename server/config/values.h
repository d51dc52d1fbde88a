// Values of settings as text: parsed strictly, formatted for people. Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_VALUES_H_
#define HISTOGRAM_SERVER_CONFIG_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::server {

// Each parser answers INVALID_ARGUMENT with the rest of a sentence that starts with the setting's
// name: "must be a number of bytes such as 65536, 64KiB or 1GiB, not '12 parsecs'".

// Digits alone, or with B, KiB, MiB, GiB or TiB (any case). 64 bits.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// Microseconds: digits alone, or a decimal number with us, ms, s, min or h.
absl::StatusOr<uint64_t> ParseMicroseconds(absl::string_view text);
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);
// A finite decimal number.
absl::StatusOr<double> ParseNumber(absl::string_view text);
// true, false, on, off, yes, no, 1, 0 (any case).
absl::StatusOr<bool> ParseBool(absl::string_view text);

// "64 MiB", "1000 bytes": the largest unit that divides the value.
std::string FormatBytes(uint64_t bytes);
// "3 s", "1500 us": the largest unit that divides the value.
std::string FormatMicroseconds(uint64_t microseconds);
// The shortest text that parses back to the same value.
std::string FormatNumber(double value);

// Where a server listens.
struct Address {
  bool is_unix = false;
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: any free one
  std::string path;   // of a unix socket

  // True where both cannot be bound at the same time: the same path, or the same fixed port of the
  // same host or of a wildcard.
  bool Overlaps(const Address& other) const;
};
// HOST:PORT, [V6]:PORT or unix:PATH.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// The candidate that `name` most likely meant; empty when none is near.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_VALUES_H_
