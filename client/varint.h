// The parts of protobuf's wire format that the client writes and reads by hand, so that payloads
// are not copied. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_VARINT_H_
#define HISTOGRAM_CLIENT_VARINT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace histogram::client {

inline void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// A field that holds one number.
inline void AppendNumberField(std::string& out, int field, uint64_t value) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3);
  AppendVarint(out, value);
}

// The tag and length before the `length` bytes of a field of bytes, text or a message.
inline void AppendLengthPrefix(std::string& out, int field, uint64_t length) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3 | 2);
  AppendVarint(out, length);
}

// Reads a varint at `at` and advances `at`; false if it is cut off or longer than 10 bytes.
inline bool ReadVarint(absl::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; at < bytes.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_VARINT_H_
