#include "client/cli/commands/npy.h"

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);

// Little-endian.
uint64_t ReadNumber(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

// What follows "'key':" in the text of a Python dictionary, without leading blanks.
std::optional<absl::string_view> ValueOf(absl::string_view dictionary, absl::string_view key) {
  const size_t at = dictionary.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return std::nullopt;
  return absl::StripLeadingAsciiWhitespace(dictionary.substr(at + key.size() + 3));
}

absl::StatusOr<SampleType> TypeOf(absl::string_view descr) {
  static const std::map<std::string, SampleType> kTypes = {
      {"u1", SampleType::kU8},  {"b1", SampleType::kU8},  {"i1", SampleType::kI8},
      {"u2", SampleType::kU16}, {"i2", SampleType::kI16}, {"u4", SampleType::kU32},
      {"i4", SampleType::kI32}, {"u8", SampleType::kU64}, {"i8", SampleType::kI64},
      {"f2", SampleType::kF16}, {"f4", SampleType::kF32}, {"f8", SampleType::kF64}};
  if (descr.empty() || descr[0] != '\'') {
    return absl::InvalidArgumentError("it is an array of records; save one of its fields");
  }
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  const auto found = kTypes.find(std::string(descr.substr(std::min<size_t>(1, descr.size()))));
  if (found == kTypes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it holds ", SafeText(std::string(descr)),
                     ", which is not counted; integers and floats of up to 64 bits are"));
  }
  if (descr[0] == '>' && SampleBytes(found->second) > 1) {
    return absl::InvalidArgumentError(absl::StrCat("it is big-endian (",
                                                   SafeText(std::string(descr)),
                                                   "); save a.astype(a.dtype.newbyteorder('<'))"));
  }
  return found->second;
}

// The product of the numbers in "(3, 4)"; nothing where it is none, or too large.
std::optional<uint64_t> SamplesOf(absl::string_view shape) {
  const size_t end = shape.find(')');
  if (shape.empty() || shape[0] != '(' || end == absl::string_view::npos) return std::nullopt;
  uint64_t samples = 1;
  for (absl::string_view part : absl::StrSplit(shape.substr(1, end - 1), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    uint64_t length = 0;
    if (!absl::SimpleAtoi(part, &length)) return std::nullopt;
    if (length > 0 && samples > std::numeric_limits<uint64_t>::max() / 8 / length) {
      return std::nullopt;
    }
    samples *= length;
  }
  return samples;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start) {
  if (!absl::StartsWith(start, kMagic) || start.size() < 10) {
    return absl::InvalidArgumentError("it does not begin as a .npy file does");
  }
  // Versions 2 and 3 write the header's length with four bytes, version 1 with two.
  const size_t begin = start[6] == 1 ? 10 : 12;
  NpyHeader header;
  header.bytes = begin + ReadNumber(start.substr(8, begin - 8));
  if (header.bytes > std::min<uint64_t>(start.size(), kNpyHeaderMax)) {
    return absl::InvalidArgumentError("its header is cut off, or longer than 64 KiB");
  }
  const absl::string_view dictionary = start.substr(begin, header.bytes - begin);
  const auto descr = ValueOf(dictionary, "descr"), shape = ValueOf(dictionary, "shape");
  if (!descr.has_value() || !shape.has_value()) {
    return absl::InvalidArgumentError("its header names no type or no shape");
  }
  const absl::StatusOr<SampleType> type = TypeOf(*descr);
  if (!type.ok()) return type.status();
  header.type = *type;
  const std::optional<uint64_t> samples = SamplesOf(*shape);
  if (!samples.has_value()) return absl::InvalidArgumentError("its shape is not readable");
  header.samples = *samples;
  return header;
}

}  // namespace histogram::cli
