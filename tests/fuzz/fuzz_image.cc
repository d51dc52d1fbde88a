// The client's picture readers on hostile files: a picture or an error, never a crash, and what is
// read has the size that it claims. What the writers make of it reads back as it was.
#include <cstddef>
#include <cstdint>
#include <string>

#include "client/cli/picture/image.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using histogram::cli::Channel;
using histogram::cli::DecodeImage;
using histogram::cli::Image;

void CheckSizes(const Image& image) {
  const uint64_t pixels = uint64_t{image.width} * image.height;
  FUZZ_CHECK(pixels > 0 && pixels <= histogram::cli::kPixelsMax, std::to_string(pixels));
  FUZZ_CHECK(!image.channels.empty() && image.channels.size() <= 4, "");
  for (const Channel& channel : image.channels) {
    FUZZ_CHECK(channel.values.size() == pixels * image.sample_bytes(), channel.name);
  }
}

void CheckSameGrey(const absl::StatusOr<Image>& image, uint32_t width, uint32_t height,
                   const std::string& values) {
  FUZZ_CHECK(image.ok(), image.status().ToString());
  FUZZ_CHECK(image->width == width && image->height == height, "");
  FUZZ_CHECK(image->channels.size() == 1 && image->channels[0].values == values, "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = DecodeImage({reinterpret_cast<const char*>(data), size});
  if (!image.ok()) {
    FUZZ_CHECK(image.status().code() == absl::StatusCode::kInvalidArgument,
               image.status().ToString());
    FUZZ_CHECK(!image.status().message().empty(), "");
    return 0;
  }
  CheckSizes(*image);
  Channel grey = GreyOf(*image);
  FUZZ_CHECK(grey.values.size() == image->channels[0].values.size(), "");
  constexpr size_t kPixelsMax = size_t{1} << 16;  // so that an input stays quick
  if (grey.values.size() > kPixelsMax || image->sample_bytes() > 1) return 0;
  const uint32_t width = image->width;
  const uint32_t height = image->height;
  CheckSameGrey(DecodeImage(histogram::cli::EncodePgm(width, height, grey.values)), width, height,
                grey.values);
  const auto png = histogram::cli::EncodePng(width, height, grey.values);
  FUZZ_CHECK(png.ok(), png.status().ToString());
  CheckSameGrey(DecodeImage(*png), width, height, grey.values);
  return 0;
}
