#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
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
    const size_t start = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    uint32_t number = 0;
    if (!absl::SimpleAtoi(text_.substr(start, at_ - start), &number) || number > kNumberMax) {
      return std::nullopt;
    }
    return number;
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
  const char kind = bytes[1];
  if (kind != '2' && kind != '3' && kind != '5' && kind != '6') {
    return absl::InvalidArgumentError(absl::StrCat(
        "this is a P", bytes.substr(1, 1),
        " picture; of the Netpbm formats only PGM (P2, P5) and PPM (P3, P6) are read"));
  }
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
  return Header{kind <= '3', kind == '2' || kind == '5' ? 1U : 3U, *width, *height, *maximum};
}

// The `i`th binary sample, big-endian.
uint32_t SampleAt(absl::string_view bytes, uint64_t i, size_t sample_bytes) {
  const auto byte = [&](uint64_t at) -> uint32_t { return static_cast<unsigned char>(bytes[at]); };
  return sample_bytes == 1 ? byte(i) : byte(2 * i) << 8 | byte(2 * i + 1);
}

// 16-bit samples are scaled to 8 bits; others are taken as they are.
absl::StatusOr<std::string> ReadSamples(const Header& header, Scanner& scanner) {
  const uint64_t samples = uint64_t{header.width} * header.height * header.channels;
  const uint32_t maximum = header.maximum;
  const size_t sample_bytes = maximum > 255 ? 2 : 1;
  if (!header.text && !scanner.OneBlank()) {
    return absl::InvalidArgumentError("the picture's header does not end in a blank");
  }
  // In decimal a sample takes a digit, and a blank but for the last: no memory for what cannot be
  // there.
  const uint64_t need = header.text ? samples * 2 - 1 : samples * sample_bytes;
  const absl::string_view rest = scanner.Rest();
  if (rest.size() < need) {
    return absl::InvalidArgumentError(absl::StrCat("the picture is cut off: it needs ", need,
                                                   " bytes of samples and has ", rest.size()));
  }
  std::string values;
  values.reserve(samples);
  for (uint64_t i = 0; i < samples; ++i) {
    const std::optional<uint32_t> sample =
        header.text ? scanner.Number() : SampleAt(rest, i, sample_bytes);
    if (!sample.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the picture's sample ", i + 1, " of ", samples, " is not a number"));
    }
    if (*sample > maximum) {
      return absl::InvalidArgumentError(absl::StrCat("the picture has a sample of ", *sample,
                                                     ", above its largest value ", maximum));
    }
    values.push_back(
        static_cast<char>(maximum > 255 ? (*sample * 255 + maximum / 2) / maximum : *sample));
  }
  return values;
}

}  // namespace

absl::StatusOr<Image> DecodeNetpbm(absl::string_view bytes) {
  Scanner scanner(bytes.substr(2));
  const absl::StatusOr<Header> header = ReadHeader(bytes, scanner);
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::string> values = ReadSamples(*header, scanner);
  if (!values.ok()) return values.status();
  Image image;
  image.width = header->width;
  image.height = header->height;
  const bool grey = header->channels == 1;
  image.format = grey ? "PGM" : "PPM";
  image.channels =
      grey ? Deinterleave(*values, {"grey"}) : Deinterleave(*values, {"red", "green", "blue"});
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
