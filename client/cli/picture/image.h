// Pictures of 8-bit channels: PGM and PPM (text and binary) and PNG, from bytes and to bytes.
// Every size a file claims is checked against the file's length before memory is taken for it.
// Pure; thread-safe.
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
  std::string values;  // width * height bytes, by rows
};

struct Image {
  std::string format;  // PGM, PPM, PNG
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<Channel> channels;
  std::vector<std::string> notes;  // what was changed to arrive at 8 bits a channel
};

// The name of a common picture format that is not read; empty: anything else.
absl::string_view ForeignFormat(absl::string_view bytes);

// INVALID_ARGUMENT says what is wrong with the file.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes);
absl::StatusOr<Image> DecodeNetpbm(absl::string_view bytes);
absl::StatusOr<Image> DecodePng(absl::string_view bytes);

// Of one channel: the PNG has one bit a pixel, set where the value is not 0.
std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values);
absl::StatusOr<std::string> EncodeBlackWhitePng(uint32_t width, uint32_t height,
                                                absl::string_view values);

// The channel that a threshold is taken of: grey, or the luminance (Rec. 601) of red, green, blue.
Channel GreyOf(const Image& image);

// Names the size and its limit.
absl::Status CheckPixels(uint64_t width, uint64_t height);

// Takes interleaved samples apart. REQUIRES: samples.size() is a multiple of names.size().
std::vector<Channel> Deinterleave(absl::string_view samples, const std::vector<std::string>& names);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_PICTURE_IMAGE_H_
