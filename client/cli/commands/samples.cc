#include <histogram/typed.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/commands/count.h"
#include "client/cli/render/text.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

constexpr uint32_t kDefaultBins = 256;

absl::Status Named(const Input& input, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(input.name, ": ", what));
}

constexpr uint64_t kNpyHeaderMax = uint64_t{64} << 10;
constexpr size_t kLookedAtBytes = 4096;  // to tell text of numbers
constexpr absl::string_view kMagic("\x93NUMPY", 6);

// What follows "'key':" in the text of a Python dictionary, without leading blanks. The key may be
// in double quotes.
std::optional<absl::string_view> ValueOf(absl::string_view dictionary, absl::string_view key) {
  size_t at = dictionary.find(absl::StrCat("'", key, "'"));
  if (at == absl::string_view::npos) at = dictionary.find(absl::StrCat("\"", key, "\""));
  if (at == absl::string_view::npos) return std::nullopt;
  dictionary = absl::StripLeadingAsciiWhitespace(dictionary.substr(at + key.size() + 2));
  if (!absl::ConsumePrefix(&dictionary, ":")) return std::nullopt;
  return absl::StripLeadingAsciiWhitespace(dictionary);
}

// numpy's "u2" and "uint16"; of two types of one kind and size it has the first. Of bool it is u8:
// 0 and 1.
std::optional<SampleType> TypeInNumpy(absl::string_view name) {
  if (name == "b1" || name == "bool") return SampleType::kU8;
  for (const SampleTypeInfo& info : kSampleTypeList) {
    const absl::string_view kind = info.kind == SampleKind::kUnsigned ? "uint"
                                   : info.kind == SampleKind::kSigned ? "int"
                                                                      : "float";
    if (name == absl::StrCat(kind.substr(0, 1), info.bytes)) return info.type;
    if (name == absl::StrCat(kind, info.bytes * 8)) return info.type;
  }
  return std::nullopt;
}

absl::StatusOr<SampleType> ReadDescr(absl::string_view descr, bool& big_endian) {
  if (descr.empty() || (descr[0] != '\'' && descr[0] != '"')) {
    return absl::InvalidArgumentError("it is an array of records; save one of its fields");
  }
  descr = descr.substr(1, descr.find(descr[0], 1) - 1);
  // Without a mark of the byte order it is that of the machine, as of a name: "float64".
  const size_t mark = descr.find_first_of("<>=|") == 0 ? 1 : 0;
  const std::optional<SampleType> type = TypeInNumpy(descr.substr(mark));
  if (!type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it holds ", descr, ", which is not counted; integers and floats of up to 64 bits are"));
  }
  big_endian = descr[0] == '>' && SampleBytes(*type) > 1;
  return *type;
}

// The product of the numbers in "(3, 4)"; nothing where it is none, or too large.
std::optional<uint64_t> SamplesOf(absl::string_view shape) {
  const size_t end = shape.find(')');
  if (shape.empty() || shape[0] != '(' || end == absl::string_view::npos) return std::nullopt;
  uint64_t samples = 1;
  for (absl::string_view part : absl::StrSplit(shape.substr(1, end - 1), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    (void)absl::ConsumeSuffix(&part, "L");  // as Python 2 writes long integers
    uint64_t length = 0;
    if (!absl::SimpleAtoi(part, &length)) return std::nullopt;
    if (length > 0 && samples > std::numeric_limits<uint64_t>::max() / 8 / length) {
      return std::nullopt;
    }
    samples *= length;
  }
  return samples;
}

// Takes the header of a .npy file off the input, as numpy.save writes it:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
// Returns the type of the samples. INVALID_ARGUMENT: it is no .npy file, or its type (which the
// message names) is not supported. REQUIRES: kNpyHeaderMax bytes are there, or all of fewer.
absl::StatusOr<SampleType> TakeNpyHeader(Input& input) {
  const absl::string_view start = input.bytes;
  if (!absl::StartsWith(start, kMagic) || start.size() < 10) {
    return absl::InvalidArgumentError("it does not begin as a .npy file does");
  }
  if (start[6] < 1 || start[6] > 3) {
    return absl::InvalidArgumentError(absl::StrCat("its format is version ",
                                                   static_cast<int>(static_cast<uint8_t>(start[6])),
                                                   "; versions 1 to 3 are read"));
  }
  // Versions 2 and 3 write the header's length with four bytes, version 1 with two.
  const size_t begin = start[6] == 1 ? 10 : 12;
  uint32_t length = 0;  // little-endian
  start.copy(reinterpret_cast<char*>(&length), begin - 8, 8);
  const uint64_t bytes = begin + length;
  if (bytes > std::min<uint64_t>(start.size(), kNpyHeaderMax)) {
    return absl::InvalidArgumentError("its header is cut off, or longer than 64 KiB");
  }
  const absl::string_view dictionary = start.substr(begin, length);
  const auto descr = ValueOf(dictionary, "descr"), shape = ValueOf(dictionary, "shape");
  if (!descr.has_value() || !shape.has_value()) {
    return absl::InvalidArgumentError("its header names no type or no shape");
  }
  const absl::StatusOr<SampleType> type = ReadDescr(*descr, input.big_endian);
  if (!type.ok()) return type;
  const std::optional<uint64_t> samples = SamplesOf(*shape);
  if (!samples.has_value()) return absl::InvalidArgumentError("its shape is not readable");
  input.array = true;
  input.bytes.remove_prefix(bytes);
  input.limit = *samples * SampleBytes(*type);
  return type;
}

// The type that the input's own beginning names: a .npy file's, whatever its name. Leaves only the
// samples in the input.
absl::StatusOr<std::optional<SampleType>> ReadHeader(bool typed, Input& input) {
  if (!input.status.ok()) return std::nullopt;  // reported when counting
  if (input.stream != nullptr && isatty(*input.stream) != 0) return std::nullopt;
  if (absl::Status status = ReadOn(input, kLookedAtBytes); !status.ok()) return status;
  const absl::string_view start = input.bytes.substr(0, kLookedAtBytes);
  const bool npy = absl::StartsWith(start, kMagic) || absl::EndsWithIgnoreCase(input.name, ".npy");
  if (!typed && absl::StartsWith(start, "PK\3\4") &&
      (npy || absl::StrContains(start.substr(0, 256), ".npy"))) {
    return Named(input, "it is a .npz archive; unpack it, and count the .npy files in it");
  }
  input.looks_like_numbers = LooksLikeNumbers(start);
  if (!npy) return std::nullopt;
  if (absl::Status status = ReadOn(input, kNpyHeaderMax); !status.ok()) return status;
  const absl::StatusOr<SampleType> type = TakeNpyHeader(input);
  if (!type.ok()) return Named(input, type.status().message());
  if (input.stream == nullptr && input.bytes.size() < input.limit) {
    return Named(input, absl::StrCat("it should hold ", FormatCount(input.limit),
                                     " bytes of samples behind its header, and holds ",
                                     FormatCount(input.bytes.size())));
  }
  input.bytes = input.bytes.substr(0, input.limit);
  if (input.bytes.size() == input.limit) input.stream = nullptr;
  return *type;
}

// Sets `binning` to the edges that numpy.histogram gives floats narrower than double. They are
// those of numpy.linspace: in the samples' type where the range is that of the samples, and rounded
// to it where the user gave the range. Leaves edges alone that would not increase.
void NarrowEdges(SampleType type, bool own_range, v1::Binning& binning) {
  const v1::Binning::Even& even = binning.even();
  const EvenTypes types{.arithmetic = own_range ? type : SampleType::kF64, .edges = type};
  const auto narrow =
      histogram::Binning::EvenIn(types, even.bin_count(), even.lower(), even.upper());
  if (!narrow.ok()) return;
  const std::vector<double> edges = narrow->ComputeEdges();
  binning.mutable_edges()->mutable_edges()->Assign(edges.begin(), edges.end());
}

// Replaces bins over a range whose length overflows by their edges.
void WidenEdges(v1::Binning& binning) {
  const v1::Binning::Even even = binning.even();
  if (std::isfinite(even.upper() - even.lower())) return;
  const double lower = even.lower() / 2, step = (even.upper() / 2 - lower) / even.bin_count();
  v1::Binning::Edges& edges = *binning.mutable_edges();
  for (uint32_t i = 0; i < even.bin_count(); ++i) edges.add_edges((lower + i * step) * 2);
  edges.add_edges(even.upper());
}

// As many bins as the default, or fewer where the range holds too few doubles.
uint32_t DefaultBins(double least, double greatest) {
  const double far = std::max(std::abs(least), std::abs(greatest));
  const double unit = far - std::nextafter(far, 0);
  return static_cast<uint32_t>(
      std::clamp((greatest - least) / unit / 2, 1.0, static_cast<double>(kDefaultBins)));
}

}  // namespace

absl::Status FindType(const std::string& type, std::vector<Input>& inputs, v1::Spec& spec) {
  std::optional<SampleType> found;
  if (!type.empty()) found = ParseSampleType(type);
  const Input* first = nullptr;
  for (Input& input : inputs) {
    const auto header = ReadHeader(!type.empty(), input);
    if (!header.ok()) return header.status();
    std::optional<SampleType> its = *header;
    if (!its.has_value() && type.empty()) its = SampleType::kU8;
    if (!its.has_value()) continue;
    if (found.has_value() && *found != *its) {
      const std::string held(NameOf(*its)), wanted(NameOf(*found));
      return absl::InvalidArgumentError(absl::StrCat(
          input.name, ": it holds ", held, ", but ",
          first == nullptr ? absl::StrCat("--type is ", wanted, "; leave out --type")
                           : absl::StrCat(first->name, " holds ", wanted, "; count them apart")));
    }
    found = its;
    if (first == nullptr) first = &input;
  }
  if (found.has_value() && *found != SampleType::kU8) {
    spec.set_sample_type(static_cast<v1::SampleType>(InfoOf(*found).number));
  }
  return absl::OkStatus();
}

bool NeedsRange(const v1::Spec& spec) {
  const v1::Binning& binning = spec.binning();
  return !HasWholeRange(TypeOf(spec)) && (binning.kind_case() == v1::Binning::KIND_NOT_SET ||
                                          (binning.has_even() && !binning.even().has_lower()));
}

absl::Status FindRange(absl::Span<Input> inputs, v1::Spec& spec) {
  const SampleType type = TypeOf(spec);
  const bool narrow =
      KindOf(type) == SampleKind::kFloat && SampleBytes(type) < sizeof(double) &&
      std::all_of(inputs.begin(), inputs.end(), [](const Input& input) { return input.array; });
  v1::Binning& binning = *spec.mutable_binning();
  if (!NeedsRange(spec)) {
    if (narrow && binning.has_even()) NarrowEdges(type, false, binning);
    if (binning.has_even()) WidenEdges(binning);
    return absl::OkStatus();
  }
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (Input& input : inputs) {
    const auto timed = TimeLook(input);
    const size_t bytes = input.bytes.size();
    const std::span samples(input.bytes.data(), bytes - bytes % SampleBytes(type));
    if (const auto extent = FindExtent(std::as_bytes(samples), type); extent.has_value()) {
      least = std::min(least, extent->least);
      greatest = std::max(greatest, extent->greatest);
    }
  }
  if (least > greatest) {
    least = 0;
    greatest = 1;
  } else if (const auto around = histogram::Binning::EvenIn({.arithmetic = type, .edges = type}, 1,
                                                            least - 0.5, greatest + 0.5);
             narrow && least == greatest && around.ok()) {
    least = around->edge(0);
    greatest = around->edge(1);
  } else if (least == greatest) {
    constexpr double kMost = std::numeric_limits<double>::max();
    least = std::max(std::min(least - 0.5, std::nextafter(least, -HUGE_VAL)), -kMost);
    greatest = std::min(std::max(greatest + 0.5, std::nextafter(greatest, HUGE_VAL)), kMost);
  }
  v1::Binning::Even& even = *binning.mutable_even();
  if (even.bin_count() == 0) even.set_bin_count(DefaultBins(least, greatest));
  even.set_lower(least);
  even.set_upper(greatest);
  spec.set_edges(true);
  if (narrow) NarrowEdges(type, true, binning);
  if (binning.has_even()) WidenEdges(binning);
  return absl::OkStatus();
}

}  // namespace histogram::cli
