// The samples of inputs: raw samples of one type, or arrays in .npy files.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_

#include <histogram/sample_type.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
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

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_SAMPLES_H_
