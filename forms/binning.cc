#include "forms/binning.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "forms/report.h"

namespace histogram {
namespace {

Error Bad(const std::string& field, const std::string& message) {
  return {.message = absl::StrCat(field, ": ", message), .field = field};
}

Result<Binning> OfEven(const v1::Binning::Even& even, SampleType type, uint32_t bin_count_max) {
  if (even.range_of_data() && even.range_of_row()) {
    return Bad("even.range_of_row", "the data's range is asked for, too; leave out one of the two");
  }
  if (even.range_of_data() || even.range_of_row()) {
    if (!even.has_lower() && !even.has_upper()) {
      return Binning::Even(even.bin_count(), 0.0, 1.0, bin_count_max);
    }
    return Bad(even.has_lower() ? "even.lower" : "even.upper",
               absl::StrCat("the ", even.range_of_row() ? "rows' ranges are" : "data's range is",
                            " asked for; lower and upper must be absent"));
  }
  if (!even.has_lower() && !even.has_upper()) {
    const std::optional<ValueRange> whole = WholeRange(type);
    if (!whole.has_value()) {
      return Bad("even",
                 absl::StrCat("without lower and upper it is the sample type's whole range; ",
                              ApiName(type), " needs both"));
    }
    return Binning::Even(even.bin_count(), whole->lower, whole->upper, bin_count_max);
  }
  return Binning::Even(
      even.bin_count(), even.has_lower() ? std::optional(even.lower()) : std::nullopt,
      even.has_upper() ? std::optional(even.upper()) : std::nullopt, bin_count_max);
}

// One bin for each value.
Result<Binning> OfValues(SampleType type, uint32_t bin_count_max) {
  const std::optional<ValueRange> whole = WholeRange(type);
  if (!whole.has_value()) {
    return Bad("", absl::StrCat("absent means a bin for each value of the sample type; ",
                                ApiName(type), " needs a binning"));
  }
  const auto bins = static_cast<uint32_t>(whole->upper - whole->lower);
  if (bins > bin_count_max) {
    return Error{.code = ErrorCode::kTooManyBins,
                 .message = absl::StrCat(": absent means ", bins, " bins, more than the limit of ",
                                         bin_count_max),
                 .limit = bin_count_max};
  }
  return Binning::Even(bins, whole->lower, whole->upper, bin_count_max);
}

template <typename Number>
std::span<const Number> SpanOf(const google::protobuf::RepeatedField<Number>& numbers) {
  return {numbers.data(), static_cast<size_t>(numbers.size())};
}

}  // namespace

std::string ApiName(SampleType type) {
  const auto number = static_cast<v1::SampleType>(InfoOf(type).number);
  return v1::SampleType_Name(number).substr(sizeof("SAMPLE_TYPE_") - 1);
}

Result<Binning> BinningOf(const v1::Binning& binning, SampleType type, uint32_t bin_count_max) {
  const auto not_bytes = [type](const char* field) {
    return Bad(field, absl::StrCat("it bins bytes (UINT8), not ", ApiName(type)));
  };
  switch (binning.kind_case()) {
    case v1::Binning::kEven:
      return OfEven(binning.even(), type, bin_count_max);
    case v1::Binning::kEdges:
      return Binning::Edges(SpanOf(binning.edges().edges()), bin_count_max);
    case v1::Binning::kAlphabet:
      if (type != SampleType::kU8) return not_bytes("alphabet");
      return Binning::Alphabet(binning.alphabet().first_symbol(), binning.alphabet().symbol_count(),
                               binning.alphabet().symbols_per_bin(), bin_count_max);
    case v1::Binning::kByteTable:
      if (type != SampleType::kU8) return not_bytes("byte_table");
      return Binning::ByteTable(binning.byte_table().bin_count(),
                                SpanOf(binning.byte_table().bin_of_byte()), bin_count_max);
    case v1::Binning::KIND_NOT_SET:
      break;
  }
  return OfValues(type, bin_count_max);
}

std::string BinningKind(const v1::Spec& spec) {
  const auto* const kind = v1::Binning::descriptor()->FindFieldByNumber(spec.binning().kind_case());
  return kind == nullptr ? "values" : std::string(kind->name());
}

bool BinsAreSymbols(const v1::Spec& spec) { return spec.binning().has_alphabet(); }

bool LastEdgeClosed(const v1::Spec& spec) {
  return spec.binning().has_even() || spec.binning().has_edges();
}

std::vector<double> EdgesByValue(const v1::Spec& spec, size_t bins) {
  std::vector<double> edges;
  if (spec.binning().has_alphabet()) {
    const auto& alphabet = spec.binning().alphabet();
    const uint32_t end = alphabet.first_symbol() + alphabet.symbol_count();
    const uint32_t step = std::max(alphabet.symbols_per_bin(), 1U);
    for (uint32_t symbol = alphabet.first_symbol(); symbol < end; symbol += step) {
      edges.push_back(symbol);
    }
    edges.push_back(end);
    return edges;
  }
  const double first = WholeRange(TypeOf(spec)).value_or(ValueRange()).lower;
  for (size_t i = 0; i <= bins; ++i) edges.push_back(first + static_cast<double>(i));
  return edges;
}

}  // namespace histogram
