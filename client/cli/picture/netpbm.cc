#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/picture/image.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kNumberMax = uint64_t{1} << 31;
constexpr size_t kBlockBytes = size_t{48} << 10;  // whole pixels of every kind

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

struct Header {
  bool text = false;  // samples in decimal
  uint32_t channels = 1;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t maximum = 0;
};

absl::StatusOr<Header> ReadHeader(absl::string_view& bytes) {
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
  return Header{kind <= '3', kind == '2' || kind == '5' ? 1U : 3U, *width, *height, *maximum};
}

absl::Status CheckSample(uint32_t sample, uint32_t maximum) {
  if (sample <= maximum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the picture has a sample of ", sample, ", above its largest value ", maximum));
}

// The pixels are big-endian.
absl::Status ReadBinary(absl::string_view& bytes, uint64_t need, Image& image) {
  const size_t sample_bytes = image.sample_bytes();
  std::string block;
  for (uint64_t done = 0; done < need; done += block.size()) {
    block = std::string(bytes.substr(0, std::min<uint64_t>(kBlockBytes, need - done)));
    bytes.remove_prefix(block.size());
    for (size_t at = 0; at < block.size(); at += sample_bytes) {
      uint32_t sample = static_cast<unsigned char>(block[at]);
      if (sample_bytes == 2) {
        sample = sample << 8 | static_cast<unsigned char>(block[at + 1]);
        std::swap(block[at], block[at + 1]);
      }
      if (absl::Status status = CheckSample(sample, image.maximum); !status.ok()) return status;
    }
    AddPixels(block, image);
  }
  return absl::OkStatus();
}

absl::Status ReadText(absl::string_view& bytes, uint64_t samples, Image& image) {
  std::string pixel;
  for (uint64_t i = 0; i < samples; ++i) {
    const std::optional<uint32_t> sample = ReadNumber(bytes);
    if (!sample.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the picture's sample ", i + 1, " of ", samples, " is not a number"));
    }
    if (absl::Status status = CheckSample(*sample, image.maximum); !status.ok()) return status;
    pixel.push_back(static_cast<char>(*sample & 0xff));
    if (image.sample_bytes() == 2) pixel.push_back(static_cast<char>(*sample >> 8));
    if ((i + 1) % image.channels.size() == 0) {
      AddPixels(pixel, image);
      pixel.clear();
    }
  }
  SkipBlanksAndComments(bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodeNetpbm(absl::string_view& bytes) {
  const absl::StatusOr<Header> header = ReadHeader(bytes);
  if (!header.ok()) return header.status();
  if (!header->text) {
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
  const bool grey = header->channels == 1;
  Image image = {grey ? "PGM" : "PPM", header->width, header->height, header->maximum, {}, {}};
  const uint64_t samples = uint64_t{header->width} * header->height * header->channels;
  // In decimal a sample takes a digit, and a blank but for the last: no memory for what cannot be
  // there.
  const uint64_t need = header->text ? samples * 2 - 1 : samples * image.sample_bytes();
  if (bytes.size() < need) {
    return absl::InvalidArgumentError(absl::StrCat("the picture is cut off: it needs ", need,
                                                   " bytes of samples and has ", bytes.size()));
  }
  image.channels = EmptyChannels(image, grey ? std::vector<std::string>{"grey"}
                                             : std::vector<std::string>{"red", "green", "blue"});
  absl::Status status =
      header->text ? ReadText(bytes, samples, image) : ReadBinary(bytes, need, image);
  if (!status.ok()) return status;
  if (header->maximum != 255 && header->maximum != 65535) {
    image.notes.push_back(
        absl::StrCat("samples of 0..", header->maximum, " were counted as they are"));
  }
  return image;
}

std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values) {
  return absl::StrCat("P5\n", width, " ", height, "\n255\n", values);
}

}  // namespace histogram::cli
