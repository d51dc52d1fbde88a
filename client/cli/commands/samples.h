// What the inputs of a count hold: raw samples of one type, or arrays in .npy files.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_

#include <histogram/sample_type.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/cli/commands/input.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::cli {

// "u8", "i8" ... "f64".
std::vector<std::string> SampleTypeNames();

// Looks at the inputs whose names end in .npy: what follows their header is counted, and their type
// is the spec's from now on. `type`: what was asked for; empty where nothing was.
// INVALID_ARGUMENT: inputs of two types, or what is not counted. Errors name the input.
absl::Status FindType(const std::string& type, std::vector<Input>& inputs, v1::Spec& spec);

// Where the spec's bins need a range that it has not: those of the finite samples of all inputs,
// which are read for that; half to either side where they are equal, [0, 1] where there are none.
// Without a binning, 256 bins. INVALID_ARGUMENT where an input can be read only once.
absl::Status FindRange(absl::Span<const Input> inputs, v1::Spec& spec);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
