// Counts inputs in this process or on a server. On a server, ComputeMany counts small inputs, and
// Accumulate counts, in chunks, those that are large or of unknown size.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/input.h"
#include "client/cli/connection.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/report.h"

namespace histogram::cli {

// results[i] belongs to inputs[i]. An input's error does not affect the others. An error for all
// inputs is that of the connection or, in this process only, INVALID_ARGUMENT for a bad spec.
using Results = absl::StatusOr<std::vector<absl::StatusOr<Report>>>;

Results CountInputs(const ServerOptions& server, const v1::Spec& spec, std::vector<Input> inputs,
                    Environment& env);
// Without a server, with the service's kernels and answers. Large inputs use all cores. Memory is
// one block for each core, whatever the files' sizes. `standard_input` is the file descriptor of
// "-".
Results CountInProcess(const v1::Spec& spec, const std::vector<Input>& inputs, int standard_input,
                       absl::Time deadline, Progress& progress);

// The error in one line, in terms of the command line.
std::string ExplainCount(const absl::Status& status, const ServerOptions& server);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
