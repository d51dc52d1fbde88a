// Numbers written as text, as samples.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBERS_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/commands/input.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::cli {

// Replaces each input by its numbers, in memory (8 bytes each), and sets the spec's type: i64 where
// all numbers of all inputs are whole, u64 where some of these need it, else f64.
//
// `column` empty: numbers between blanks, line ends and commas. Else a column of a table with a
// header, whose cells are parted by commas, or by tabs or semicolons where the header has no comma:
// its name, or its number from 1 on. Cells may be in quotes, with line ends in them. A cell that is
// empty or missing is a NaN. "nan" and "inf" are numbers. FAILED_PRECONDITION: a text is not a
// number, an integer among others that are not whole is no f64, a row has more cells than the
// header, or a quote is not closed; the message names input, line and text. INVALID_ARGUMENT: no
// such column, or more than one of that name.
absl::Status ReadNumbers(const std::string& column, int standard_input, absl::Time deadline,
                         std::vector<Input>& inputs, v1::Spec& spec);

// Whether the beginning of an input is text of numbers: nothing but digits, signs, points,
// exponents and what separates numbers, with a line end or a blank.
bool LooksLikeNumbers(absl::string_view beginning);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBERS_H_
