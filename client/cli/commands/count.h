// Counts inputs in this process or on a server: files, standard input, or bytes in memory. Their
// samples are raw ones of one type, arrays in .npy files, or numbers written as text. On a server,
// ComputeMany counts small inputs, and Accumulate counts, in chunks, those that are large or of
// unknown size.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cli/connection.h"
#include "client/cli/environment.h"
#include "forms/report.h"

namespace histogram::cli {

// A file descriptor. The last copy closes it, but never standard input.
using InputFile = std::shared_ptr<const int>;

// Bytes that are there, and a stream of those that follow them.
struct Input {
  std::string name;
  absl::Status status = {};                               // why it cannot be counted
  absl::string_view bytes = {};                           // in memory, or of a mapped file
  std::shared_ptr<const void> holder = nullptr;           // of the bytes
  std::string mapped = {};                                // the path of the file that is mapped
  uint64_t mapped_bytes = 0, mapped_inode = 0;            // of that file
  InputFile stream = nullptr;                             // null: the bytes are all
  uint64_t limit = std::numeric_limits<uint64_t>::max();  // more of a stream are not counted
  bool array = false;                                     // a .npy file
  bool big_endian = false;                                // its samples
  bool looks_like_numbers = false;                        // it begins as text of numbers does
  std::string header_number = {};                // the name of its column where that is a number
  absl::Duration looked = absl::ZeroDuration();  // the time of looks at it, before it is counted

  bool limited() const { return limit != std::numeric_limits<uint64_t>::max(); }
  // Takes these bytes instead of those that it has.
  void Hold(std::string other) {
    const auto held = std::make_shared<const std::string>(std::move(other));
    bytes = *held;
    holder = held;
  }
};

// Adds the time until the result's end to the input's looks.
inline auto TimeLook(Input& input) {
  return absl::Cleanup([&input, start = absl::Now()] { input.looked += absl::Now() - start; });
}

// Opens a file, or standard input. A regular file is mapped: one that becomes shorter raises
// SIGBUS. Others are streams, which can be read only once.
Input OpenFile(const std::string& path);
Input StandardInput(int standard_input);

// Reads a stream on until so many bytes of the input are there; at its end its stream becomes null.
// CutOff where it ends before its limit.
absl::Status ReadOn(Input& input, uint64_t bytes);
// Fills the buffer with what follows the first `done` bytes; not all of it at the end. CutOff where
// that comes before the limit.
absl::StatusOr<size_t> ReadNext(const Input& input, absl::Span<char> buffer, uint64_t done);
// The error of an input of which less is there than its size or header said.
absl::Status CutOff(const Input& input);
// CutOff where the mapped file is shorter now: what was read after its end were zeros, not samples.
absl::Status StillWhole(const Input& input);

// Whether standard input comes from something other than a person at a terminal.
bool IsFed(int standard_input);
// Whether somebody has named its source: a file or a pipe, and not /dev/null or a socket.
bool IsFileOrPipe(int standard_input);

// INVALID_ARGUMENT if `output` is one of the files that are read.
absl::Status CheckOutput(const char* option, const std::string& output,
                         const std::vector<std::string>& files, int standard_input);

// Sets the spec's type. Reads the headers of inputs that begin as .npy files do, takes their type
// and skips the headers. `type`: the type that the user asked for; empty: none.
// INVALID_ARGUMENT: inputs of two types. FAILED_PRECONDITION: a file that is not readable as .npy,
// or holds a type that is not supported. Errors name the input.
absl::Status FindType(const std::string& type, std::vector<Input>& inputs, v1::Spec& spec);

// Whether the range of the spec's bins is that of the samples.
bool NeedsRange(const v1::Spec& spec);

// Sets a missing range of the spec's bins to the least and greatest finite sample of all inputs,
// but streams. It reads the inputs for that. If both are equal, the range is 0.5 to either side, or
// the next double; without finite samples it is [0, 1]. Without a binning, sets 256 bins, or fewer
// where the range holds too few doubles.
absl::Status FindRange(absl::Span<Input> inputs, v1::Spec& spec);

// Replaces each input by its numbers, in memory (8 bytes each; up to 16, and the text of a stream,
// while it reads), and sets the spec's type: i64 where all numbers of all inputs are whole, u64
// where some of these need it, else f64.
//
// `column` empty: numbers between blanks, line ends and commas. Else a column of a table with a
// header, whose cells are parted by commas, or by tabs or semicolons where the header has no comma
// outside quotes: its name, or its number from 1 on. Cells may be in quotes, with line ends in
// them. A cell that is empty or missing is a NaN. "nan" and "inf" are numbers. FAILED_PRECONDITION:
// a text is not a number, an integer among others that are not whole is no f64, a row has more
// cells than the header, or a quote is not closed; the message names input, line and text.
// INVALID_ARGUMENT: no such column, or more than one of that name.
absl::Status ReadNumbers(const std::string& column, std::vector<Input>& inputs, v1::Spec& spec);

// Whether the beginning of an input is text of numbers: nothing but digits, signs, points,
// exponents and what separates numbers, with at least one digit and one separator.
bool LooksLikeNumbers(absl::string_view beginning);

// results[i] belongs to inputs[i]. An input's error does not affect the others. An error for all
// inputs is that of the connection or, in this process only, INVALID_ARGUMENT for a bad spec.
using Results = absl::StatusOr<std::vector<absl::StatusOr<Report>>>;

Results CountInputs(const ServerOptions& server, const v1::Spec& spec,
                    const std::vector<Input>& inputs);
// Without a server, with the service's kernels and answers. Large files use all cores.
Results CountInProcess(const v1::Spec& spec, const std::vector<Input>& inputs);

// The error in one line, in terms of the command line.
std::string ExplainCount(const absl::Status& status, const ServerOptions& server);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
