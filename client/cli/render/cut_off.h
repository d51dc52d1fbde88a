// Where a picture's axis ends, so that a few towering counts do not flatten all others. Pure;
// thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace histogram::cli {

// At most the `peaks` tallest counts are cut off. Nothing where the tallest is within three times
// what would remain, and where there are so few counts that each is of interest.
std::optional<double> CutOff(std::vector<uint64_t> counts, size_t peaks);

// The same for the values of a picture, of which a tenth may be peaks: large areas of a photograph
// are nearly black, or nearly white.
std::optional<double> CutOffOfPicture(const std::vector<uint64_t>& counts);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_CUT_OFF_H_
