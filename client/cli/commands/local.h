// Counts in this process, with the service's kernels and answers, without a server.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/commands/input.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/report.h"

namespace histogram::cli {

// results[i] belongs to inputs[i]. An input's error does not affect the others. INVALID_ARGUMENT
// for all inputs: the spec is bad. Large inputs use all cores. Memory is one block for each core,
// whatever the files' sizes. `standard_input` is the file descriptor of "-".
absl::StatusOr<std::vector<absl::StatusOr<Report>>> CountInProcess(const v1::Spec& spec,
                                                                   const std::vector<Input>& inputs,
                                                                   int standard_input,
                                                                   absl::Time deadline,
                                                                   Progress& progress);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_H_
