// The samples of inputs: raw samples of one type, arrays in .npy files, or numbers written as text.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_

#include <histogram/sample_type.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cli/commands/input.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::cli {

// "u8", "i8" ... "f64".
std::vector<std::string> SampleTypeNames();

// Sets the spec's type. Reads the headers of inputs that begin as .npy files do, takes their type
// and skips the headers. `type`: the type that the user asked for; empty: none.
// INVALID_ARGUMENT: inputs of two types. FAILED_PRECONDITION: a file that is not readable as .npy,
// or holds a type that is not supported. DEADLINE_EXCEEDED: as of ReadFully. Errors name the input.
absl::Status FindType(const std::string& type, int standard_input, absl::Time deadline,
                      std::vector<Input>& inputs, v1::Spec& spec);

// Whether the range of the spec's bins is that of the samples.
bool NeedsRange(const v1::Spec& spec);

// Sets a missing range of the spec's bins to the least and greatest finite sample of all inputs. It
// reads the inputs for that. If both are equal, the range is 0.5 to either side, or the next
// double; without finite samples it is [0, 1]. Without a binning, sets 256 bins, or fewer where the
// range holds too few doubles. INVALID_ARGUMENT if an input can be read only once.
// DEADLINE_EXCEEDED: the reading took longer.
absl::Status FindRange(absl::Span<Input> inputs, absl::Time deadline, v1::Spec& spec);

// Replaces each input by its numbers, in memory (8 bytes each, up to 16 while it reads), and sets
// the spec's type: i64 where all numbers of all inputs are whole, u64 where some of these need it,
// else f64.
//
// `column` empty: numbers between blanks, line ends and commas. Else a column of a table with a
// header, whose cells are parted by commas, or by tabs or semicolons where the header has no comma
// outside quotes: its name, or its number from 1 on. Cells may be in quotes, with line ends in
// them. A cell that is empty or missing is a NaN. "nan" and "inf" are numbers. FAILED_PRECONDITION:
// a text is not a number, an integer among others that are not whole is no f64, a row has more
// cells than the header, or a quote is not closed; the message names input, line and text.
// INVALID_ARGUMENT: no such column, or more than one of that name.
absl::Status ReadNumbers(const std::string& column, int standard_input, absl::Time deadline,
                         std::vector<Input>& inputs, v1::Spec& spec);

// Whether the beginning of an input is text of numbers: nothing but digits, signs, points,
// exponents and what separates numbers, with at least one digit and one separator.
bool LooksLikeNumbers(absl::string_view beginning);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
