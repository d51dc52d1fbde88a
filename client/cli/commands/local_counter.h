// Counts inputs block by block, on all cores.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_COUNTER_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_COUNTER_H_

#include <histogram/histogram.h>
#include <histogram/typed.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cli/commands/input.h"
#include "client/cli/render/progress.h"

namespace histogram::cli {

// The counts of one input so far.
struct Tally {
  absl::Status status;
  ValueCounts values{};            // of bytes
  std::optional<Histogram> typed;  // of other types
  uint64_t kernel_ns = 0;
  size_t block_bytes_max = 0;
  std::set<size_t> threads;
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();

  void Add(const Tally& piece);
  // `plan`: null for bytes.
  void Count(absl::Span<const uint8_t> block, const Plan* plan);
};

// A tally for each input. `plan`: null for bytes. `standard_input`: the file descriptor of "-".
std::vector<Tally> CountValuesOf(const std::vector<Input>& inputs, const Plan* plan,
                                 int standard_input, absl::Time deadline, Progress& progress);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_LOCAL_COUNTER_H_
