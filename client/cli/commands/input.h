// What the commands count: files, standard input, or bytes in memory.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::cli {

struct Input {
  std::string name;
  std::string path;                                 // of a file; "-": standard input
  std::optional<std::string> bytes = std::nullopt;  // in memory, instead of a file
  uint64_t begin = 0;                               // in the file: what is before is not counted
};

// An input that is open for reading. Closes its file, unless that is standard input.
class InputFile {
 public:
  InputFile(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  bool owned_;
};

// How many bytes an input has from `begin` on; nothing where that is not known before it is read
// (pipes, /proc).
absl::StatusOr<std::optional<uint64_t>> SizeOf(const Input& input);

// Reading begins at `begin`. REQUIRES: the input's bytes are not in memory.
absl::StatusOr<InputFile> OpenInput(const Input& input, int standard_input);

// Whether something other than a person at a terminal feeds standard input.
bool IsFed(int standard_input);

// INVALID_ARGUMENT where writing `output` would overwrite one of the files that are read.
absl::Status CheckOutput(const char* option, const std::string& output,
                         const std::vector<std::string>& files, int standard_input);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_INPUT_H_
