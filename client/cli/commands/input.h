// The inputs of a count: files, standard input, or bytes in memory.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::cli {

struct Input {
  std::string name;
  std::string path;                                 // a file; "-": standard input
  std::optional<std::string> bytes = std::nullopt;  // in memory, instead of a file
  uint64_t begin = 0;                               // bytes of the file that are skipped
};

// The file descriptor of an open input. The last copy closes it, but never standard input.
using InputFile = std::shared_ptr<const int>;

// The number of bytes of an input after `begin`; nullopt if it is unknown before reading (pipes,
// /proc).
absl::StatusOr<std::optional<uint64_t>> SizeOf(const Input& input);

// Opens the input at `begin`. REQUIRES: it is not in memory.
absl::StatusOr<InputFile> OpenInput(const Input& input, int standard_input);

// Whether standard input comes from something other than a person at a terminal.
bool IsFed(int standard_input);
// Whether somebody has named its source: a file or a pipe, and not /dev/null or a socket.
bool IsFileOrPipe(int standard_input);

// INVALID_ARGUMENT if `output` is one of the files that are read.
absl::Status CheckOutput(const char* option, const std::string& output,
                         const std::vector<std::string>& files, int standard_input);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
