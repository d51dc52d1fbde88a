#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/picture/image.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kNumberMax = uint64_t{1} << 31;
constexpr size_t kBlockBytes = size_t{48} << 10;  // whole pixels of every kind

bool IsBlank(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

void SkipBlanksAndComments(Source& source) {
  bool comment = false;
  while (const std::optional<char> next = source.Peek()) {
    if (*next == '#') comment = true;
    if (*next == '\n' || *next == '\r') comment = false;
    if (!comment && !IsBlank(*next)) return;
    source.Skip();
  }
}

// Reads a number between blanks and comments; nullopt if none is there, or it is above 2^31.
std::optional<uint32_t> ReadNumber(Source& source) {
  SkipBlanksAndComments(source);
  std::optional<uint64_t> number;
  for (auto next = source.Peek(); next.has_value() && *next >= '0' && *next <= '9';
       next = source.Peek()) {
    number = number.value_or(0) * 10 + static_cast<uint64_t>(*next - '0');
    if (*number > kNumberMax) return std::nullopt;
    source.Skip();
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

absl::StatusOr<Header> ReadHeader(Source& source) {
  source.Skip();  // the P
  const char kind = source.Peek().value_or(' ');
  source.Skip();
  if (kind != '2' && kind != '3' && kind != '5' && kind != '6') {
    return absl::InvalidArgumentError(absl::StrCat(
        "this is a P", std::string(1, kind),
        " picture; of the Netpbm formats only PGM (P2, P5) and PPM (P3, P6) are read"));
  }
  const auto width = ReadNumber(source);
  const auto height = ReadNumber(source);
  const auto maximum = ReadNumber(source);
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

absl::Status CutOff(uint64_t need, uint64_t have) {
  return absl::InvalidArgumentError(
      absl::StrCat("the picture is cut off: it needs ", need, " bytes of samples and has ", have));
}

absl::Status CheckSample(uint32_t sample, uint32_t maximum) {
  if (sample <= maximum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the picture has a sample of ", sample, ", above its largest value ", maximum));
}

// The pixels are big-endian.
absl::Status ReadBinary(Source& source, uint64_t samples, Image& image) {
  const size_t bytes = image.sample_bytes();
  const uint64_t need = samples * bytes;
  std::string block;
  for (uint64_t done = 0; done < need; done += block.size()) {
    block.resize(std::min<uint64_t>(kBlockBytes, need - done));
    const size_t filled = source.Read(absl::MakeSpan(block));
    if (filled < block.size()) return CutOff(need, done + filled);
    for (size_t at = 0; at < block.size(); at += bytes) {
      if (bytes == 2) std::swap(block[at], block[at + 1]);
      uint32_t sample = static_cast<unsigned char>(block[at]);
      if (bytes == 2)
        sample |= static_cast<uint32_t>(static_cast<unsigned char>(block[at + 1])) << 8;
      if (absl::Status status = CheckSample(sample, image.maximum); !status.ok()) return status;
    }
    AddPixels(block, image);
  }
  return absl::OkStatus();
}

absl::Status ReadText(Source& source, uint64_t samples, Image& image) {
  std::string pixel;
  for (uint64_t i = 0; i < samples; ++i) {
    const std::optional<uint32_t> sample = ReadNumber(source);
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
  SkipBlanksAndComments(source);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> DecodeNetpbm(Source& source) {
  const absl::StatusOr<Header> header = ReadHeader(source);
  if (!header.ok()) return header.status();
  if (!header->text) {
    // Exactly one blank parts the header from binary samples.
    if (!source.Peek().has_value() || !IsBlank(*source.Peek())) {
      return absl::InvalidArgumentError("the picture's header does not end in a blank");
    }
    const bool carriage_return = source.Peek() == '\r';
    source.Skip();
    // Either the line end would be a sample, or a sample a part of the line end.
    if (carriage_return && source.Peek() == '\n') {
      return absl::InvalidArgumentError(
          "the picture's header ends in CR LF, where one blank parts it from binary samples; was "
          "the file converted as text?");
    }
  }
  const bool grey = header->channels == 1;
  Image image = {grey ? "PGM" : "PPM", header->width, header->height, header->maximum, {}, {}};
  const uint64_t samples = uint64_t{header->width} * header->height * header->channels;
  // In decimal a sample takes a digit, and a blank but for the last: no memory for what cannot be
  // there.
  const uint64_t need = header->text ? samples * 2 - 1 : samples * image.sample_bytes();
  if (const uint64_t have = source.left().value_or(need); have < need) return CutOff(need, have);
  image.channels = EmptyChannels(image, grey ? std::vector<std::string>{"grey"}
                                             : std::vector<std::string>{"red", "green", "blue"});
  absl::Status status =
      header->text ? ReadText(source, samples, image) : ReadBinary(source, samples, image);
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
