#include <histogram/rows.h>

#include <algorithm>
#include <string>

namespace histogram {
namespace {

Error BadRows(const char* field, const std::string& message, uint64_t limit) {
  return {.code = ErrorCode::kBadRows,
          .message = std::string(field) + ": " + message,
          .field = field,
          .limit = limit};
}

}  // namespace

Result<uint64_t> RowCut::Stretches(uint64_t samples) const {
  if (samples % channels != 0) {
    return BadRows("channels",
                   std::to_string(samples) + " samples are not a multiple of " +
                       std::to_string(channels) + " channels",
                   channels);
  }
  const uint64_t pixels = samples / channels;
  switch (kind) {
    case Kind::kOne:
      return 1;
    case Kind::kLengths: {
      uint64_t left = pixels;
      for (size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] > left) {
          return BadRows("lengths",
                         "number " + std::to_string(i) + " is " + std::to_string(lengths[i]) +
                             ", but of the payload's " + std::to_string(pixels) +
                             " samples of a channel " + std::to_string(left) + " are left",
                         pixels);
        }
        left -= lengths[i];
      }
      if (left > 0) {
        return BadRows("lengths",
                       "together they are " + std::to_string(pixels - left) +
                           " samples; the payload has " + std::to_string(pixels) + " of a channel",
                       pixels);
      }
      return lengths.size();
    }
    case Kind::kWindows:
      break;
  }
  if (step == 0) return pixels / window + (pixels % window != 0 ? 1 : 0);
  return pixels < window ? 0 : (pixels - window) / step + 1;
}

uint64_t RowCut::Longest(uint64_t samples) const {
  const uint64_t pixels = samples / channels;
  switch (kind) {
    case Kind::kOne:
      return pixels;
    case Kind::kLengths:
      return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    case Kind::kWindows:
      break;
  }
  return std::min(window, pixels);
}

uint64_t RowCut::Visited(uint64_t stretches, uint64_t samples) const {
  const bool overlap = kind == Kind::kWindows && step != 0;
  return overlap ? stretches * window * channels : samples;
}

}  // namespace histogram
