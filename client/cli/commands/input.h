// The inputs of a count: files, standard input, or bytes in memory.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace histogram::cli {

// The file descriptor of an open input. The last copy closes it, but never standard input.
using InputFile = std::shared_ptr<const int>;

struct Input {
  std::string name;
  std::string path;                                       // a file; "-": standard input
  std::optional<std::string> bytes = std::nullopt;        // in memory, instead of a file
  uint64_t begin = 0;                                     // bytes of the file that are skipped
  uint64_t limit = std::numeric_limits<uint64_t>::max();  // bytes after those that are counted
  // What can be read only once, and the bytes that were read of it already.
  InputFile opened = nullptr;
  std::string head = {};
  bool array = false;                            // a .npy file
  bool big_endian = false;                       // its samples
  bool looks_like_numbers = false;               // it begins as text of numbers does
  std::string header_number = {};                // the name of its column where that is a number
  absl::Duration looked = absl::ZeroDuration();  // what looks at it took before it is counted

  bool limited() const { return limit != std::numeric_limits<uint64_t>::max(); }
};

// Adds the time until the result's end to the input's looks.
inline auto TimeLook(Input& input) {
  return absl::Cleanup([&input, start = absl::Now()] { input.looked += absl::Now() - start; });
}

// The number of bytes of an input after `begin`; nullopt if it is unknown before reading (pipes,
// /proc, /sys). CutOff if a file holds fewer than `limit`.
absl::StatusOr<std::optional<uint64_t>> SizeOf(const Input& input);

// Opens the input at `begin`; null for one in memory.
absl::StatusOr<InputFile> OpenInput(const Input& input, int standard_input);

// Standard input, or the file itself where it is a regular one, which can be read more than once.
Input StandardInput(int standard_input);

// Fills the buffer with what follows the first `done` bytes of an input that is read in its order.
absl::StatusOr<size_t> ReadNext(const Input& input, const InputFile& file, absl::Span<char> buffer,
                                uint64_t done, absl::Time deadline);
// The error of an input of which less is there than its size or header said.
absl::Status CutOff(const Input& input);

// Whether standard input comes from something other than a person at a terminal.
bool IsFed(int standard_input);
// Whether somebody has named its source: a file or a pipe, and not /dev/null or a socket.
bool IsFileOrPipe(int standard_input);

// INVALID_ARGUMENT if `output` is one of the files that are read.
absl::Status CheckOutput(const char* option, const std::string& output,
                         const std::vector<std::string>& files, int standard_input);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
