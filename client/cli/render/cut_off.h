// Where the axis of a chart ends, so that a few tall counts do not flatten all others. Thread-safe:
// no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace histogram::cli {

// The axis's end; it cuts off at most the `peaks` tallest counts. nullopt if the tallest count is
// at most three times the tallest of the others, or if there are few counts.
std::optional<double> CutOff(std::vector<uint64_t> counts, size_t peaks);

// The same for the values of a picture. A tenth of them may be peaks, because large areas of a
// photograph are nearly black or nearly white.
std::optional<double> CutOffOfPicture(const std::vector<uint64_t>& counts);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_
