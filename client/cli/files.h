// Reads and writes files.
#ifndef HISTOGRAM_CLIENT_CLI_FILES_H_
#define HISTOGRAM_CLIENT_CLI_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace histogram::cli {

// "cannot WHAT PATH: " and what errno says.
absl::Status FileError(const char* what, const std::string& path);

// Fills the buffer from a file descriptor; returns fewer bytes only at the end of the file. `name`
// is for the error. Waits for data where the descriptor is in non-blocking mode, too.
absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name);
// The rest of an open file, or its first `bytes_max` bytes.
absl::StatusOr<std::string> ReadAll(int file, const std::string& name,
                                    uint64_t bytes_max = UINT64_MAX);
// Waits where the descriptor is in non-blocking mode and its reader is slow. False: errno says why.
bool WriteFully(int file, absl::string_view bytes);
// Leaves no part of a regular file where it fails. Waits for a reader of a FIFO.
absl::Status WriteFile(const std::string& path, const std::string& bytes);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_FILES_H_
