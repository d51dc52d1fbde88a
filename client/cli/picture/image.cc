#include "client/cli/picture/image.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace histogram::cli {
namespace {

// The end of a line is what an editor or echo adds.
absl::Status CheckEnd(absl::string_view rest) {
  (void)absl::ConsumePrefix(&rest, "\r");
  (void)absl::ConsumePrefix(&rest, "\n");
  if (rest.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the file goes on after its picture, with a second picture or other data; give each picture "
      "a file of its own");
}

bool IsNetpbm(absl::string_view head) {
  return head.size() >= 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7';
}

}  // namespace

absl::Status CheckHead(absl::string_view head) {
  if (IsNetpbm(head) || absl::StartsWith(head, "\x89PNG")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "not a PGM, PPM or PNG picture; ImageMagick makes one of others: magick IN OUT.png");
}

absl::StatusOr<Image> DecodeImage(absl::string_view bytes) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  absl::StatusOr<Image> image = IsNetpbm(bytes) ? DecodeNetpbm(bytes) : DecodePng(bytes);
  if (!image.ok()) return image;
  if (absl::Status status = CheckEnd(bytes); !status.ok()) return status;
  return image;
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

std::vector<Channel> EmptyChannels(const Image& image, const std::vector<std::string>& names) {
  std::vector<Channel> channels;
  for (const std::string& name : names) {
    channels.push_back({name, ""});
    channels.back().values.reserve(size_t{image.width} * image.height * image.sample_bytes());
  }
  return channels;
}

void AddPixels(absl::string_view samples, Image& image) {
  if (image.channels.size() == 1) {
    image.channels[0].values.append(samples.data(), samples.size());
    return;
  }
  const size_t bytes = image.sample_bytes();
  for (size_t at = 0; at < samples.size();) {
    for (Channel& channel : image.channels) {
      for (size_t i = 0; i < bytes; ++i) channel.values.push_back(samples[at++]);
    }
  }
}

uint32_t ValueAt(const Image& image, const Channel& channel, size_t i) {
  const auto byte = [&](size_t at) -> uint32_t {
    return static_cast<unsigned char>(channel.values[at]);
  };
  return image.sample_bytes() == 1 ? byte(i) : byte(2 * i) | byte(2 * i + 1) << 8;
}

Channel GreyOf(const Image& image) {
  if (image.channels.size() < 3) return image.channels[0];
  Channel grey = {"luminance", std::string(image.channels[0].values.size(), '\0')};
  const size_t bytes = image.sample_bytes();
  for (size_t i = 0; i * bytes < grey.values.size(); ++i) {
    const auto value = [&](size_t channel) { return ValueAt(image, image.channels[channel], i); };
    const uint32_t mixed = (299 * value(0) + 587 * value(1) + 114 * value(2) + 500) / 1000;
    grey.values[i * bytes] = static_cast<char>(mixed & 0xff);
    if (bytes == 2) grey.values[2 * i + 1] = static_cast<char>(mixed >> 8);
  }
  return grey;
}

}  // namespace histogram::cli
