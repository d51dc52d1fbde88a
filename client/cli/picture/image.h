// Decodes and encodes pictures with 8-bit channels: PGM and PPM (text and binary) and PNG. Checks
// every size in a file against the file's length before it allocates memory. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_PICTURE_IMAGE_H_
#define HISTOGRAM_CLIENT_CLI_PICTURE_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::cli {

inline constexpr uint64_t kPixelsMax = uint64_t{1} << 29;

struct Channel {
  std::string name;    // grey, red, green, blue, alpha
  std::string values;  // width * height bytes, row by row
};

struct Image {
  std::string format;  // PGM, PPM, PNG
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<Channel> channels;
  std::vector<std::string> notes;  // conversions that gave 8 bits a channel
};

// The name of a common picture format that is not supported; empty for other bytes.
absl::string_view ForeignFormat(absl::string_view bytes);

// INVALID_ARGUMENT: the message says what is wrong with the file.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes);
absl::StatusOr<Image> DecodeNetpbm(absl::string_view bytes);
absl::StatusOr<Image> DecodePng(absl::string_view bytes);

// Encodes one channel. The PNG has one bit for each pixel: whether the value is not 0.
std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values);
absl::StatusOr<std::string> EncodeBlackWhitePng(uint32_t width, uint32_t height,
                                                absl::string_view values);

// The channel for a threshold: grey, or the luminance (Rec. 601) of red, green and blue.
Channel GreyOf(const Image& image);

// Fails for no pixels, and for more than kPixelsMax; the message names the size and the limit.
absl::Status CheckPixels(uint64_t width, uint64_t height);

// Separates interleaved channels. REQUIRES: samples.size() is a multiple of names.size().
std::vector<Channel> Deinterleave(absl::string_view samples, const std::vector<std::string>& names);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_PICTURE_IMAGE_H_
