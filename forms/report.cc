#include "forms/report.h"

#include "absl/strings/str_cat.h"

namespace histogram {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the UTF-8 sequence at the front of `text`; 0: not valid, or not to be shown.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC0 || lead > 0xF4 || text.size() < length) return 0;
  uint32_t code = lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  // Shorter sequences have the codes below; those of C1 controls, up to 0x9F, steer terminals too.
  constexpr uint32_t kLeast[] = {0xA0, 0x800, 0x10000};
  if (code < kLeast[length - 2] || code > 0x10FFFF) return 0;
  if (code >= 0xD800 && code <= 0xDFFF) return 0;  // surrogates
  if (code == 0xFFFE || code == 0xFFFF) return 0;  // not allowed in XML
  if (code >= 0x202A && code <= 0x202E) return 0;  // nor text that reorders what is shown
  if (code >= 0x2066 && code <= 0x2069) return 0;
  return length;
}

}  // namespace

std::string SafeText(absl::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0 || lead < 0x20 || lead == 0x7F) {
      absl::StrAppend(&safe, lead == '\n' || lead == '\t' ? " " : kReplacement);
      text.remove_prefix(1);
    } else {
      absl::StrAppend(&safe, text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return safe;
}

void SetCounts(const Histogram& from, v1::Histogram& to) {
  to.mutable_counts()->Add(from.counts.begin(), from.counts.end());
  to.set_samples(from.samples);
  to.set_below(from.below);
  to.set_above(from.above);
  to.set_ignored(from.ignored);
  to.set_nan(from.nan);
}

void SetStatistics(const Statistics& from, v1::Statistics& to) {
  if (from.minimum.has_value()) to.set_minimum(*from.minimum);
  if (from.maximum.has_value()) to.set_maximum(*from.maximum);
  if (from.mean.has_value()) to.set_mean(*from.mean);
  if (from.standard_deviation.has_value()) to.set_standard_deviation(*from.standard_deviation);
  if (from.median.has_value()) to.set_median(*from.median);
  if (from.mode.has_value()) to.set_mode(*from.mode);
  if (from.entropy_bits.has_value()) to.set_entropy_bits(*from.entropy_bits);
  if (from.otsu_threshold.has_value()) to.set_otsu_threshold(*from.otsu_threshold);
  to.mutable_quantiles()->Add(from.quantiles.begin(), from.quantiles.end());
}

SampleType TypeOf(const v1::Spec& spec) {
  return SampleTypeOf(spec.sample_type()).value_or(SampleType::kU8);
}

std::string TypeName(v1::SampleType type) {
  const std::optional<SampleType> known = SampleTypeOf(type);
  return known.has_value() ? std::string(NameOf(*known)) : absl::StrCat(static_cast<int>(type));
}

std::vector<double> EdgesOf(const Report& report) {
  const auto& given = report.histogram.edges();
  if (!given.empty()) return {given.begin(), given.end()};
  if (report.spec.binning().even().range_of_row()) return {};
  const auto bins = report.spec.has_rows() ? static_cast<size_t>(report.rows.bin_count())
                                           : static_cast<size_t>(report.histogram.counts_size());
  return EdgesByValue(report.spec, bins);
}

std::vector<Statistic> StatisticsOf(const Report& report) {
  const v1::Statistics& from = report.histogram.statistics();
  std::vector<Statistic> statistics;
  const auto add = [&](bool has, const char* name, const char* label, double value) {
    if (has) statistics.push_back({name, label, value});
  };
  add(from.has_minimum(), "minimum", "minimum", from.minimum());
  add(from.has_maximum(), "maximum", "maximum", from.maximum());
  add(from.has_mean(), "mean", "mean", from.mean());
  add(from.has_standard_deviation(), "standard_deviation", "standard deviation",
      from.standard_deviation());
  add(from.has_median(), "median", "median", from.median());
  add(from.has_mode(), "mode", "mode", from.mode());
  // Of bins that hold several values it is not the entropy of the samples.
  const bool of_values = TypeOf(report.spec) == SampleType::kU8 &&
                         report.histogram.counts_size() == 256 &&
                         EdgesOf(report) == EdgesByValue(v1::Spec(), 256);
  add(from.has_entropy_bits(), "entropy_bits",
      of_values ? "entropy in bits" : "entropy of the bins in bits", from.entropy_bits());
  add(from.has_otsu_threshold(), "otsu_threshold", "Otsu's threshold", from.otsu_threshold());
  return statistics;
}

}  // namespace histogram
