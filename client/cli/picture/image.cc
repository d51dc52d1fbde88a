#include "client/cli/picture/image.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace histogram::cli {

absl::string_view ForeignFormat(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return "JPEG";
  if (absl::StartsWith(bytes, "GIF8")) return "GIF";
  if (absl::StartsWith(bytes, absl::string_view("II*\0", 4)) ||
      absl::StartsWith(bytes, absl::string_view("MM\0*", 4))) {
    return "TIFF";
  }
  if (absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") {
    return "WebP";
  }
  return "";
}

absl::StatusOr<Image> DecodeImage(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\x89PNG")) return DecodePng(bytes);
  if (bytes.size() >= 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7') {
    return DecodeNetpbm(bytes);
  }
  return absl::InvalidArgumentError("not a PGM, PPM or PNG picture");
}

absl::Status CheckPixels(uint64_t width, uint64_t height) {
  if (width == 0 || height == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the picture is ", width, " x ", height, ": it has no pixels"));
  }
  // Both are below 2^32, so the product does not overflow.
  if (width * height > kPixelsMax) {
    return absl::InvalidArgumentError(absl::StrCat("the picture is ", width, " x ", height,
                                                   ", more than the limit of ", kPixelsMax,
                                                   " pixels"));
  }
  return absl::OkStatus();
}

std::vector<Channel> Deinterleave(absl::string_view samples,
                                  const std::vector<std::string>& names) {
  std::vector<Channel> channels;
  const size_t pixels = samples.size() / names.size();
  for (size_t c = 0; c < names.size(); ++c) {
    Channel channel = {names[c], std::string(pixels, '\0')};
    for (size_t i = 0; i < pixels; ++i) channel.values[i] = samples[i * names.size() + c];
    channels.push_back(std::move(channel));
  }
  return channels;
}

Channel GreyOf(const Image& image) {
  if (image.channels.size() < 3) return image.channels[0];
  const auto value = [&](size_t channel, size_t i) -> uint32_t {
    return static_cast<unsigned char>(image.channels[channel].values[i]);
  };
  Channel grey = {"luminance", std::string(image.channels[0].values.size(), '\0')};
  for (size_t i = 0; i < grey.values.size(); ++i) {
    grey.values[i] =
        static_cast<char>((299 * value(0, i) + 587 * value(1, i) + 114 * value(2, i) + 500) / 1000);
  }
  return grey;
}

}  // namespace histogram::cli
