#include "client/cli/picture/image.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kNumberMax = uint64_t{1} << 31;

bool IsBlank(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

void SkipBlanksAndComments(absl::string_view& bytes) {
  bool comment = false;
  for (; !bytes.empty(); bytes.remove_prefix(1)) {
    if (bytes[0] == '#') comment = true;
    if (bytes[0] == '\n' || bytes[0] == '\r') comment = false;
    if (!comment && !IsBlank(bytes[0])) return;
  }
}

// Reads a number between blanks and comments; nullopt if none is there, or it is above 2^31.
std::optional<uint32_t> ReadNumber(absl::string_view& bytes) {
  SkipBlanksAndComments(bytes);
  std::optional<uint64_t> number;
  for (; !bytes.empty() && bytes[0] >= '0' && bytes[0] <= '9'; bytes.remove_prefix(1)) {
    number = number.value_or(0) * 10 + static_cast<uint64_t>(bytes[0] - '0');
    if (*number > kNumberMax) return std::nullopt;
  }
  return number;
}

// The picture but for its channels. `text`: whether its samples are in decimal.
absl::StatusOr<Image> ReadHeader(absl::string_view& bytes, bool& text) {
  const char kind = bytes[1];  // after the P
  bytes.remove_prefix(2);
  if (kind != '2' && kind != '3' && kind != '5' && kind != '6') {
    return absl::InvalidArgumentError(absl::StrCat(
        "this is a P", std::string(1, kind),
        " picture; of the Netpbm formats only PGM (P2, P5) and PPM (P3, P6) are read"));
  }
  const auto width = ReadNumber(bytes);
  const auto height = ReadNumber(bytes);
  const auto maximum = ReadNumber(bytes);
  if (!width.has_value() || !height.has_value() || !maximum.has_value()) {
    return absl::InvalidArgumentError(
        "the picture's header must have a width, a height and a largest value");
  }
  if (absl::Status status = CheckPixels(*width, *height); !status.ok()) return status;
  if (*maximum < 1 || *maximum > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("the picture's largest value is ", *maximum, "; it must be in 1..65535"));
  }
  text = kind <= '3';
  return Image{kind == '2' || kind == '5' ? "PGM" : "PPM", *width, *height, *maximum, {}, {}};
}

// Takes a big-endian sample off the front.
uint32_t TakeBinary(size_t sample_bytes, absl::string_view& bytes) {
  uint32_t sample = static_cast<unsigned char>(bytes[0]);
  if (sample_bytes == 2) sample = sample << 8 | static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(sample_bytes);
  return sample;
}

// `samples`: of all channels. REQUIRES: those in binary are there.
absl::Status ReadSamples(bool text, uint64_t samples, absl::string_view& bytes, Image& image) {
  const size_t sample_bytes = image.sample_bytes();
  uint64_t number = 0;
  for (size_t at = 0; at < image.channels[0].values.size(); at += sample_bytes) {
    for (Channel& channel : image.channels) {
      const std::optional<uint32_t> sample =
          text ? ReadNumber(bytes) : TakeBinary(sample_bytes, bytes);
      ++number;
      if (!sample.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the picture's sample ", number, " of ", samples, " is not a number"));
      }
      if (*sample > image.maximum) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the picture has a sample of ", *sample, ", above its largest value ", image.maximum));
      }
      channel.values[at] = static_cast<char>(*sample & 0xff);
      if (sample_bytes == 2) channel.values[at + 1] = static_cast<char>(*sample >> 8);
    }
  }
  if (text) SkipBlanksAndComments(bytes);
  return absl::OkStatus();
}

// Takes the picture off the front of `bytes`.
absl::StatusOr<Image> DecodeNetpbm(absl::string_view& bytes) {
  bool text = false;
  absl::StatusOr<Image> image = ReadHeader(bytes, text);
  if (!image.ok()) return image;
  if (!text) {
    // Exactly one blank parts the header from binary samples.
    if (bytes.empty() || !IsBlank(bytes[0])) {
      return absl::InvalidArgumentError("the picture's header does not end in a blank");
    }
    // Either the line end would be a sample, or a sample a part of the line end.
    if (absl::StartsWith(bytes, "\r\n")) {
      return absl::InvalidArgumentError(
          "the picture's header ends in CR LF, where one blank parts it from binary samples; was "
          "the file converted as text?");
    }
    bytes.remove_prefix(1);
  }
  const std::vector<std::string> names = image->format == "PGM"
                                             ? std::vector<std::string>{"grey"}
                                             : std::vector<std::string>{"red", "green", "blue"};
  const uint64_t samples = uint64_t{image->width} * image->height * names.size();
  // In decimal a sample takes a digit, and a blank but for the last: no memory for what cannot be
  // there.
  const uint64_t need = text ? samples * 2 - 1 : samples * image->sample_bytes();
  if (bytes.size() < need) {
    return absl::InvalidArgumentError(absl::StrCat("the picture is cut off: it needs ", need,
                                                   " bytes of samples and has ", bytes.size()));
  }
  image->channels = EmptyChannels(*image, names);
  absl::Status status = ReadSamples(text, samples, bytes, *image);
  if (!status.ok()) return status;
  if (image->maximum != 255 && image->maximum != 65535) {
    image->notes.push_back(
        absl::StrCat("samples of 0..", image->maximum, " were counted as they are"));
  }
  return image;
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
  // The end of a line is what an editor or echo adds.
  (void)absl::ConsumePrefix(&bytes, "\r");
  (void)absl::ConsumePrefix(&bytes, "\n");
  if (bytes.empty()) return image;
  return absl::InvalidArgumentError(
      "the file goes on after its picture, with a second picture or other data; give each picture "
      "a file of its own");
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
  const size_t bytes = size_t{image.width} * image.height * image.sample_bytes();
  std::vector<Channel> channels;
  channels.reserve(names.size());
  for (const std::string& name : names) channels.push_back({name, std::string(bytes, '\0')});
  return channels;
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

std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values) {
  return absl::StrCat("P5\n", width, " ", height, "\n255\n", values);
}

}  // namespace histogram::cli
