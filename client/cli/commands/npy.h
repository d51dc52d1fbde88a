// The header of a .npy file: what numpy.save writes.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// A pure function; thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_

#include <histogram/sample_type.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::cli {

struct NpyHeader {
  SampleType type = SampleType::kU8;  // of bool, too: 0 and 1
  uint64_t bytes = 0;                 // of the header
  uint64_t samples = 0;
};

// The most that a header may take.
inline constexpr uint64_t kNpyHeaderMax = uint64_t{64} << 10;

// `start`: the file's first bytes, kNpyHeaderMax where it has as many. INVALID_ARGUMENT: it is no
// such file, or holds what is not counted (the type is named).
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_NPY_H_
