#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/picture/image.h"

namespace histogram::cli {
namespace {

constexpr uint32_t kNumberMax = uint32_t{1} << 31;

// Reads numbers between blanks and comments.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  // Nothing: there is no number, or one above 2^31.
  std::optional<uint32_t> Number() {
    SkipBlanks();
    uint64_t number = 0;
    const size_t start = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) {
      number = number * 10 + static_cast<uint64_t>(text_[at_++] - '0');
      if (number > kNumberMax) return std::nullopt;
    }
    if (at_ == start) return std::nullopt;
    return static_cast<uint32_t>(number);
  }

  // Exactly one blank parts the header from binary samples.
  bool OneBlank() {
    if (at_ == text_.size() || !IsBlank(text_[at_])) return false;
    ++at_;
    return true;
  }

  absl::string_view Rest() const { return text_.substr(at_); }

 private:
  static bool IsBlank(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else if (IsBlank(text_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  absl::string_view text_;
  size_t at_ = 0;
};

struct Header {
  bool text = false;  // samples in decimal
  uint32_t channels = 1;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t maximum = 0;
};

absl::StatusOr<Header> ReadHeader(absl::string_view bytes, Scanner& scanner) {
  Header header;
  switch (bytes[1]) {
    case '2':
    case '5':
      break;
    case '3':
    case '6':
      header.channels = 3;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "this is a P", bytes.substr(1, 1),
          " picture; of the Netpbm formats only PGM (P2, P5) and PPM (P3, P6) are read"));
  }
  header.text = bytes[1] == '2' || bytes[1] == '3';
  const auto width = scanner.Number();
  const auto height = scanner.Number();
  const auto maximum = scanner.Number();
  if (!width.has_value() || !height.has_value() || !maximum.has_value()) {
    return absl::InvalidArgumentError(
        "the picture's header must have a width, a height and a largest value");
  }
  if (absl::Status status = CheckPixels(*width, *height); !status.ok()) return status;
  if (*maximum < 1 || *maximum > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("the picture's largest value is ", *maximum, "; it must be in 1..65535"));
  }
  header.width = *width;
  header.height = *height;
  header.maximum = *maximum;
  return header;
}

absl::Status Truncated(uint64_t need, uint64_t have) {
  return absl::InvalidArgumentError(
      absl::StrCat("the picture is cut off: it needs ", need, " bytes of samples and has ", have));
}

// 16-bit samples are scaled to 8 bits; others are taken as they are.
absl::StatusOr<char> ToByte(uint32_t sample, uint32_t maximum) {
  if (sample > maximum) {
    return absl::InvalidArgumentError(absl::StrCat("the picture has a sample of ", sample,
                                                   ", above its largest value ", maximum));
  }
  if (maximum > 255) sample = (sample * 255 + maximum / 2) / maximum;
  return static_cast<char>(sample);
}

absl::StatusOr<std::string> ReadText(const Header& header, uint64_t samples, Scanner& scanner) {
  // A sample takes a digit, and a blank but for the last: no memory for what cannot be there.
  const uint64_t have = scanner.Rest().size();
  if (have < samples * 2 - 1) return Truncated(samples * 2 - 1, have);
  std::string values;
  values.reserve(samples);
  for (uint64_t i = 0; i < samples; ++i) {
    const auto sample = scanner.Number();
    if (!sample.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the picture's sample ", i + 1, " of ", samples, " is not a number"));
    }
    const absl::StatusOr<char> value = ToByte(*sample, header.maximum);
    if (!value.ok()) return value.status();
    values.push_back(*value);
  }
  return values;
}

absl::StatusOr<std::string> ReadBinary(const Header& header, uint64_t samples, Scanner& scanner) {
  if (!scanner.OneBlank()) {
    return absl::InvalidArgumentError("the picture's header does not end in a blank");
  }
  const size_t sample_bytes = header.maximum > 255 ? 2 : 1;
  const absl::string_view rest = scanner.Rest();
  if (rest.size() < samples * sample_bytes) return Truncated(samples * sample_bytes, rest.size());
  std::string values;
  values.reserve(samples);
  for (uint64_t i = 0; i < samples; ++i) {
    uint32_t sample = 0;
    for (size_t byte = 0; byte < sample_bytes; ++byte) {
      sample = sample << 8 | static_cast<unsigned char>(rest[i * sample_bytes + byte]);
    }
    const absl::StatusOr<char> value = ToByte(sample, header.maximum);
    if (!value.ok()) return value.status();
    values.push_back(*value);
  }
  return values;
}

}  // namespace

absl::StatusOr<Image> DecodeNetpbm(absl::string_view bytes) {
  Scanner scanner(bytes.substr(2));
  const absl::StatusOr<Header> header = ReadHeader(bytes, scanner);
  if (!header.ok()) return header.status();
  const uint64_t samples = uint64_t{header->width} * header->height * header->channels;
  const absl::StatusOr<std::string> values =
      header->text ? ReadText(*header, samples, scanner) : ReadBinary(*header, samples, scanner);
  if (!values.ok()) return values.status();
  Image image;
  image.width = header->width;
  image.height = header->height;
  image.format = header->channels == 1 ? "PGM" : "PPM";
  if (header->channels == 1) {
    image.channels.push_back({"grey", *values});
  } else {
    image.channels = Deinterleave(*values, {"red", "green", "blue"});
  }
  if (header->maximum > 255) {
    image.notes.push_back(
        absl::StrCat("samples of 0..", header->maximum, " were scaled to 8 bits"));
  } else if (header->maximum < 255) {
    image.notes.push_back(
        absl::StrCat("samples of 0..", header->maximum, " were counted as they are"));
  }
  return image;
}

std::string EncodePgm(uint32_t width, uint32_t height, absl::string_view values) {
  return absl::StrCat("P5\n", width, " ", height, "\n255\n", values);
}

}  // namespace histogram::cli
