#include "client/cli/commands/samples.h"

#include <histogram/typed.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/commands/npy.h"
#include "client/cli/connection.h"
#include "client/cli/render/report.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr uint32_t kDefaultBins = 256;
constexpr size_t kReadBytes = size_t{1} << 20;

absl::Status Named(const Input& input, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(SafeText(input.name), ": ", what));
}

absl::StatusOr<NpyHeader> ReadHeader(const Input& input, uint64_t size) {
  const absl::StatusOr<InputFile> file = OpenInput(input, -1);
  if (!file.ok()) return file.status();
  std::string start(kNpyHeaderMax, '\0');
  const absl::StatusOr<size_t> bytes =
      ReadFully(file->descriptor(), absl::MakeSpan(start), input.name, absl::InfiniteFuture());
  if (!bytes.ok()) return bytes.status();
  const auto header = ParseNpyHeader(absl::string_view(start).substr(0, *bytes));
  if (!header.ok()) return Named(input, header.status().message());
  const uint64_t need = header->samples * SampleBytes(header->type), have = size - header->bytes;
  if (have != need) {
    return Named(
        input, absl::StrCat("it should hold ", FormatCount(need),
                            " bytes of samples behind its header, and holds ", FormatCount(have)));
  }
  return header;
}

// Adds the extent of one input.
absl::Status AddExtent(const Input& input, SampleType type, double& least, double& greatest) {
  absl::StatusOr<InputFile> file = OpenInput(input, -1);
  if (!file.ok()) return file.status();
  std::string buffer(kReadBytes, '\0');
  while (true) {
    const absl::StatusOr<size_t> bytes =
        ReadFully(file->descriptor(), absl::MakeSpan(buffer), input.name, absl::InfiniteFuture());
    if (!bytes.ok()) return bytes.status();
    const size_t whole = *bytes - *bytes % SampleBytes(type);
    const std::span<const char> block(buffer.data(), whole);
    if (const auto extent = FindExtent(std::as_bytes(block), type); extent.has_value()) {
      least = std::min(least, extent->least);
      greatest = std::max(greatest, extent->greatest);
    }
    if (*bytes < buffer.size()) return absl::OkStatus();
  }
}

// Whether bins without a range are those of all of the type's values.
bool HasWholeRange(SampleType type) { return type == SampleType::kU8 || type == SampleType::kI8; }

}  // namespace

std::vector<std::string> SampleTypeNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kSampleTypes; ++i) {
    names.emplace_back(NameOf(static_cast<SampleType>(i)));
  }
  return names;
}

absl::Status FindType(const std::string& type, std::vector<Input>& inputs, v1::Spec& spec) {
  std::optional<SampleType> found;
  if (!type.empty()) found = ParseSampleType(type);
  const Input* first = nullptr;
  for (Input& input : inputs) {
    std::optional<SampleType> its;
    if (absl::EndsWithIgnoreCase(input.path, ".npy")) {
      const auto size = SizeOf(input);
      if (!size.ok()) continue;  // said where it is counted
      if (!size->has_value()) return Named(input, "it is empty, or no regular file");
      const auto header = ReadHeader(input, **size);
      if (!header.ok()) return header.status();
      input.begin = header->bytes;
      its = header->type;
    } else if (type.empty()) {
      its = SampleType::kU8;
    }
    if (!its.has_value()) continue;
    if (found.has_value() && *found != *its) {
      return Named(input, absl::StrCat("it holds ", std::string(NameOf(*its)), ", but ",
                                       first == nullptr ? "--type is" : first->name + " holds", " ",
                                       std::string(NameOf(*found)), "; count them apart"));
    }
    found = its;
    if (first == nullptr) first = &input;
  }
  if (found.has_value() && *found != SampleType::kU8) {
    spec.set_sample_type(static_cast<v1::SampleType>(static_cast<int>(*found) + 1));
  }
  return absl::OkStatus();
}

absl::Status FindRange(absl::Span<const Input> inputs, v1::Spec& spec) {
  const SampleType type = TypeOf(spec);
  v1::Binning& binning = *spec.mutable_binning();
  const bool has_bins = binning.kind_case() != v1::Binning::KIND_NOT_SET;
  if (HasWholeRange(type) || (has_bins && (!binning.has_even() || binning.even().has_lower()))) {
    if (!has_bins) spec.clear_binning();
    return absl::OkStatus();
  }
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (const Input& input : inputs) {
    const auto size = SizeOf(input);
    if (!size.ok()) continue;  // said where it is counted
    if (!size->has_value()) {
      return Named(input,
                   "it can be read only once, so its least and greatest sample are not known "
                   "before; say --range LO:HI");
    }
    if (absl::Status s = AddExtent(input, type, least, greatest); !s.ok()) return s;
  }
  if (least > greatest) {
    least = 0;
    greatest = 1;
  } else if (least == greatest) {
    least -= 0.5;
    greatest += 0.5;
  }
  v1::Binning::Even& even = *binning.mutable_even();
  if (even.bin_count() == 0) even.set_bin_count(kDefaultBins);
  even.set_lower(least);
  even.set_upper(greatest);
  spec.set_edges(true);
  return absl::OkStatus();
}

}  // namespace histogram::cli
