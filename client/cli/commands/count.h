// Counts inputs by the call that suits each: one small input by Compute, several over one
// ComputeMany, and what is large or of unknown size by Accumulate, in chunks.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/report.h"

namespace histogram::cli {

struct Input {
  std::string name;
  std::string path;                                 // of a file; "-": standard input
  std::optional<std::string> bytes = std::nullopt;  // in memory, instead of a file
};

// results[i] belongs to inputs[i]; one input's error leaves the others. `standard_input` is the
// file descriptor that "-" reads.
std::vector<absl::StatusOr<Report>> CountInputs(const Connection& connection, const v1::Spec& spec,
                                                std::vector<Input> inputs, int standard_input,
                                                Progress& progress);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
