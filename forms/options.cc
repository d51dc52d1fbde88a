#include "forms/options.h"

#include <histogram/number_text.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "forms/report.h"

namespace histogram {
namespace {

constexpr int64_t kIntegerDigitsMax = 400;  // more than doubles have

constexpr size_t kShownBytes = 40;  // of what was given

absl::Status OptionError(const std::string& option, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", what));
}

// The digits that a number's text writes, without its exponent and the zeros around them.
std::string DigitsOf(absl::string_view text) {
  std::string digits;
  for (const char c : text.substr(0, text.find_first_of("eE"))) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

// A finite number. An integer that a double does not hold would be another number without a word.
absl::StatusOr<double> ParseHeld(const std::string& option, absl::string_view token) {
  const absl::StatusOr<double> number = ParseNumber(token);
  if (!number.ok()) return OptionError(option, number.status().message());
  const absl::string_view text = absl::StripAsciiWhitespace(token);
  if (IsHeld(text, *number)) return number;
  return OptionError(option,
                     absl::StrFormat("%s is no double; the nearest is %.0f", Shown(text), *number));
}

absl::Status SetRange(const std::string& option, const std::string& text, v1::Binning::Even& even) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() != 2) return OptionError(option, "write LO:HI, for example 0:128");
  const absl::StatusOr<double> low = ParseHeld(option, parts[0]);
  if (!low.ok()) return low.status();
  const absl::StatusOr<double> high = ParseHeld(option, parts[1]);
  if (!high.ok()) return high.status();
  if (*low >= *high) {
    return OptionError(option, absl::StrCat("LO is ", Shown(parts[0]), "; it must be below HI, ",
                                            Shown(parts[1])));
  }
  even.set_lower(*low);
  even.set_upper(*high);
  return absl::OkStatus();
}

absl::Status SetEdges(const std::string& option, const std::string& text, v1::Binning& binning) {
  auto& edges = *binning.mutable_edges()->mutable_edges();
  for (const absl::string_view token : absl::StrSplit(text, ',')) {
    const absl::StatusOr<double> edge = ParseHeld(option, token);
    if (!edge.ok()) return edge.status();
    if (!edges.empty() && edges[edges.size() - 1] >= *edge) {
      return OptionError(
          option, absl::StrCat(NumberText(*edge), " follows ", NumberText(edges[edges.size() - 1]),
                               "; edges must increase"));
    }
    edges.Add(*edge);
  }
  return edges.size() >= 2 ? absl::OkStatus() : OptionError(option, "a bin needs two edges");
}

// A single character means itself; anything else is a number, decimal or 0x...
bool ParseSymbol(absl::string_view text, uint32_t& symbol) {
  if (text.size() == 1) {
    symbol = static_cast<unsigned char>(text[0]);
    return true;
  }
  const bool read = absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")
                        ? absl::SimpleHexAtoi(text, &symbol)
                        : absl::SimpleAtoi(text, &symbol);
  return read && symbol <= 255;
}

absl::Status SetAlphabet(const std::string& option, const std::string& text, v1::Binning& binning) {
  const char* const help =
      "write FIRST:COUNT or FIRST:COUNT:PER_BIN, for example a:26:6 (FIRST: a character, or a "
      "byte's value with at least two digits or as 0x61)";
  // The first symbol may be the colon itself.
  const size_t colon = text.find(':', 1);
  if (text.empty() || colon == std::string::npos) return OptionError(option, help);
  auto& alphabet = *binning.mutable_alphabet();
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t per_bin = 1;
  const std::vector<std::string> rest = absl::StrSplit(text.substr(colon + 1), ':');
  if (!ParseSymbol(text.substr(0, colon), first) || rest.size() > 2 ||
      !absl::SimpleAtoi(rest[0], &count) ||
      (rest.size() == 2 && !absl::SimpleAtoi(rest[1], &per_bin))) {
    return OptionError(option, help);
  }
  if (count < 1 || count > 256 - first) {
    return OptionError(option, absl::StrCat("COUNT is ", count, "; it must be in 1..", 256 - first,
                                            ", the byte values from FIRST up"));
  }
  if (per_bin < 1 || per_bin > count) {
    return OptionError(
        option, absl::StrCat("PER_BIN is ", per_bin, "; it must be in 1..", count, ", COUNT"));
  }
  alphabet.set_first_symbol(first);
  alphabet.set_symbol_count(count);
  alphabet.set_symbols_per_bin(per_bin);
  return absl::OkStatus();
}

absl::Status SetQuantiles(const std::string& option, const std::string& text, v1::Spec& spec) {
  for (const absl::string_view token : absl::StrSplit(text, ',')) {
    const absl::StatusOr<double> quantile = ParseNumber(token);
    if (!quantile.ok()) return OptionError(option, quantile.status().message());
    if (*quantile < 0 || *quantile > 1) {
      return OptionError(option, absl::StrCat(NumberText(*quantile), " is not between 0 and 1"));
    }
    spec.add_quantiles(*quantile);
  }
  return absl::OkStatus();
}

constexpr BinningOption kBinningOptions[] = {
    {"edges", "A,B,C", "The bins' edges, increasing; the last is closed", SetEdges},
    {"alphabet", "FIRST:COUNT:PER_BIN",
     "COUNT symbols from FIRST on, PER_BIN to a bin; other bytes are ignored", SetAlphabet},
};

// A field of the API, the option that sets it, and the part of the option's text.
struct FieldOption {
  const char* field;
  const char* option;
  const char* part = "";
};
constexpr FieldOption kFieldOptions[] = {
    {"spec.binning", "bins"},
    {"spec.binning.even", "bins"},
    {"spec.binning.even.bin_count", "bins"},
    {"spec.binning.even.lower", "range", "LO"},
    {"spec.binning.even.upper", "range", "HI"},
    {"spec.binning.even.range_of_data", "range"},
    {"spec.binning.even.range_of_row", "range"},
    {"spec.rows.windows", "windows"},
    {"spec.rows.windows.samples", "windows"},
    {"spec.rows.windows.step", "windows"},
    {"spec.rows.channels", "channels"},
    {"spec.rows", "windows"},
    {"spec.binning.edges", "edges"},
    {"spec.binning.edges.edges", "edges"},
    {"spec.binning.alphabet", "alphabet"},
    {"spec.binning.alphabet.first_symbol", "alphabet", "FIRST"},
    {"spec.binning.alphabet.symbol_count", "alphabet", "COUNT"},
    {"spec.binning.alphabet.symbols_per_bin", "alphabet", "PER_BIN"},
    {"spec.quantiles", "quantiles"},
    {"spec.statistics", "statistics"},
    {"spec.sample_type", "type"},
};

}  // namespace

absl::Span<const BinningOption> BinningOptions() { return kBinningOptions; }

absl::StatusOr<v1::Spec> SpecFromText(const SpecOptions& options, const std::string& prefix) {
  v1::Spec spec;
  v1::Binning& binning = *spec.mutable_binning();
  absl::Status status;
  if (options.bins.has_value()) binning.mutable_even()->set_bin_count(*options.bins);
  if (!options.range.empty()) {
    status.Update(SetRange(prefix + "range", options.range, *binning.mutable_even()));
  }
  for (size_t i = 0; i < options.binnings.size(); ++i) {
    if (options.binnings[i].empty()) continue;
    const BinningOption& kind = kBinningOptions[i];
    status.Update(kind.set(prefix + kind.name, options.binnings[i], binning));
  }
  if (!options.quantiles.empty()) {
    status.Update(SetQuantiles(prefix + "quantiles", options.quantiles, spec));
  }
  if (!status.ok()) return status;
  if (binning.kind_case() == v1::Binning::KIND_NOT_SET) spec.clear_binning();
  spec.set_statistics(options.statistics);
  spec.set_edges(LastEdgeClosed(spec));
  return spec;
}

std::string ByOption(const std::string& message, const std::string& prefix, bool parts) {
  std::vector<std::pair<std::string, std::string>> replacements;
  for (const FieldOption& of : kFieldOptions) {
    const bool part = parts && *of.part != '\0';
    replacements.emplace_back(
        of.field, absl::StrCat(prefix, of.option, part ? ": " : "", part ? of.part : ""));
  }
  return absl::StrReplaceAll(message, replacements);  // the longest field that fits
}

bool HasWholeRange(SampleType type) {
  return WholeRange(type).has_value() && SampleBytes(type) == 1;
}

std::optional<std::string> IntegerOf(absl::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  int64_t zeros = 0;
  if (e < text.size() && !absl::SimpleAtoi(text.substr(e + 1), &zeros)) return std::nullopt;
  std::string digits;
  bool fraction = false;
  for (const char c : text.substr(0, e)) {
    fraction |= c == '.';
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) continue;
    digits += c;
    if (fraction) --zeros;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  for (; zeros < 0 && absl::EndsWith(digits, "0"); ++zeros) digits.pop_back();
  if (zeros < 0 || zeros > kIntegerDigitsMax) return std::nullopt;
  return digits.append(static_cast<size_t>(zeros), '0');
}

bool IsHeld(absl::string_view text, double value) {
  if (std::abs(value) < 0x1p53) return true;
  const bool plain = text.find_first_of(".eE") == absl::string_view::npos;
  if (!plain || std::abs(value) > 0x1p64) {
    const std::string digits = DigitsOf(text);
    std::string nearest(digits.size() + 8, ' ');
    std::to_chars(nearest.data(), nearest.data() + nearest.size(), value,
                  std::chars_format::scientific, static_cast<int>(digits.size()) - 1);
    if (DigitsOf(nearest) == digits) return true;
  }
  const std::optional<std::string> written = IntegerOf(text);
  return !written.has_value() || absl::StrFormat("%.0f", std::abs(value)) == *written;
}

std::string Shown(absl::string_view text) {
  return absl::StrCat(SafeText(text.substr(0, kShownBytes)),
                      text.size() > kShownBytes ? "..." : "");
}

std::string Quoted(absl::string_view text) { return absl::StrCat("'", Shown(text), "'"); }

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", Shown(text), "\" is not a finite number"));
  }
  return number;
}

}  // namespace histogram
