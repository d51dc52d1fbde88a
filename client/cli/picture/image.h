// Decodes pictures (PGM and PPM, text and binary, and PNG), and encodes grey ones.
// Checks every size in a file against the file's length before it allocates memory. Thread-safe: no
// state.
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
  std::string name;    // grey, red, green, blue, alpha, luminance
  std::string values;  // width * height samples, row by row; those of 16 bits are little-endian
};

struct Image {
  std::string format;  // PGM, PPM, PNG
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t maximum = 255;  // of a sample
  std::vector<Channel> channels;
  std::vector<std::string> notes;  // what was done to the samples, or left out

  size_t sample_bytes() const { return maximum > 255 ? 2 : 1; }
};

// INVALID_ARGUMENT unless a file that begins so may be a picture that is read. `head`: its first 8
// bytes, or more.
absl::Status CheckHead(absl::string_view head);

// INVALID_ARGUMENT: the message says what is wrong with the file. Data after the picture, such as a
// second picture, is an error, but for the end of a line.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes);
// Takes the picture off the front of `bytes`.
absl::StatusOr<Image> DecodePng(absl::string_view& bytes);

// Encodes one channel of 8 bits.
std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values);
absl::StatusOr<std::string> EncodePng(uint32_t width, uint32_t height, absl::string_view values);

// The channel for a threshold: grey, or the luminance (Rec. 601) of red, green and blue.
Channel GreyOf(const Image& image);

// One sample of a channel, by its number.
uint32_t ValueAt(const Image& image, const Channel& channel, size_t i);

// Fails for no pixels, and for more than kPixelsMax; the message names the size and the limit.
absl::Status CheckPixels(uint64_t width, uint64_t height);

// Channels of these names, whose samples are 0.
std::vector<Channel> EmptyChannels(const Image& image, const std::vector<std::string>& names);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_PICTURE_IMAGE_H_
