// Counts inputs: in this process, or by a server with the call that suits each (one small input by
// Compute, several over one ComputeMany, and what is large or of unknown size by Accumulate, in
// chunks).
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/input.h"
#include "client/cli/connection.h"
#include "client/cli/render/report.h"

namespace histogram::cli {

// Where to count. Of the server's options the timeout holds in this process too.
struct Place {
  bool in_process = false;
  const ServerOptions& server;
};

// results[i] belongs to inputs[i]; one input's error leaves the others. An error for all is
// INVALID_ARGUMENT (the spec makes no sense; said in this process only) or the connection's.
absl::StatusOr<std::vector<absl::StatusOr<Report>>> CountInputs(const Place& place,
                                                                const v1::Spec& spec,
                                                                std::vector<Input> inputs,
                                                                Environment& env);

// One line: what went wrong, in the words of the command line.
std::string ExplainCount(const absl::Status& status, const Place& place);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_COUNT_H_
