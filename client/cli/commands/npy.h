// Parses the header of a .npy file, as numpy.save writes it. Thread-safe: no state.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_

#include <histogram/sample_type.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::cli {

struct NpyHeader {
  SampleType type = SampleType::kU8;  // u8 for bool too: 0 and 1
  uint64_t bytes = 0;                 // of the header
  uint64_t samples = 0;
};

// The longest header, in bytes.
inline constexpr uint64_t kNpyHeaderMax = uint64_t{64} << 10;

// `start`: the file's first kNpyHeaderMax bytes, or all of a shorter file. INVALID_ARGUMENT: it is
// no .npy file, or its type (which the message names) is not supported.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_
