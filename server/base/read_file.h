// Reads a small file whole. Thread-safe.
#ifndef HISTOGRAM_SERVER_BASE_READ_FILE_H_
#define HISTOGRAM_SERVER_BASE_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace histogram::server {

inline constexpr size_t kReadFileBytesMax = size_t{1} << 20;

// "cannot read FILE: No such file or directory" with the code that fits, where it cannot be read;
// INVALID_ARGUMENT where it is larger than kReadFileBytesMax.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_READ_FILE_H_
