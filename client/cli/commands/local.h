// Counts in this process, with the service's kernels and answers: no server is needed.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/commands/input.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/report.h"

namespace histogram::cli {

// results[i] belongs to inputs[i]; one input's error leaves the others. INVALID_ARGUMENT for all:
// the spec makes no sense. Uses all cores where there is enough to count, and memory for one block
// a core, whatever the files' sizes. `standard_input` is the file descriptor that "-" reads.
absl::StatusOr<std::vector<absl::StatusOr<Report>>> CountInProcess(const v1::Spec& spec,
                                                                   const std::vector<Input>& inputs,
                                                                   int standard_input,
                                                                   absl::Time deadline,
                                                                   Progress& progress);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_
