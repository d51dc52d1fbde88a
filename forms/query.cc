#include "forms/query.h"

#include <histogram/sample_type.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "forms/options.h"

namespace histogram {
namespace {

absl::Status Wrong(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

std::string Quoted(absl::string_view text) { return absl::StrCat("'", Shown(text), "'"); }

std::optional<std::string> Decode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      return std::nullopt;
    }
    decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return decoded;
}

}  // namespace

absl::StatusOr<v1::Spec> SpecFromQuery(absl::string_view query) {
  std::string bins, type, statistics;
  SpecOptions options;
  const std::map<std::string, std::string*> known = {{"bins", &bins},
                                                     {"range", &options.range},
                                                     {"type", &type},
                                                     {"edges", &options.edges},
                                                     {"alphabet", &options.alphabet},
                                                     {"quantiles", &options.quantiles},
                                                     {"statistics", &statistics}};
  std::map<std::string, std::string*> given;
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = std::min(part.find('='), part.size());
    const auto name = Decode(part.substr(0, equals));
    const auto value = Decode(part.substr(std::min(equals + 1, part.size())));
    if (!name.has_value() || !value.has_value()) {
      return Wrong("query", absl::StrCat(Quoted(part), " has a % without two hexadecimal digits"));
    }
    const auto found = known.find(*name);
    if (found == known.end()) {
      return Wrong("query", absl::StrCat(Quoted(*name),
                                         " is no parameter; there are alphabet, bins, edges, "
                                         "quantiles, range, statistics and type"));
    }
    if (!given.emplace(*name, found->second).second) return Wrong(*name, "give it once");
    *found->second = *value;
    if (value->empty() && *name != "statistics") return Wrong(*name, "must not be empty");
  }
  const auto has = [&](const char* name) { return given.count(name) > 0; };
  if (has("range") && !has("bins")) return Wrong("range", "needs bins");
  if (has("edges") && has("bins")) return Wrong("edges", "excludes bins");
  if (has("alphabet") && (has("bins") || has("edges"))) {
    return Wrong("alphabet", "excludes bins and edges");
  }
  if (has("bins")) {
    uint32_t count = 0;
    const bool digits = bins.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || !absl::SimpleAtoi(bins, &count) || count == 0) {
      return Wrong("bins", absl::StrCat("must be a whole number >= 1, not ", Quoted(bins)));
    }
    options.bins = count;
  }
  if (has("statistics")) {
    options.statistics = statistics.empty() || statistics == "1" || statistics == "true";
    if (!options.statistics && statistics != "0" && statistics != "false") {
      return Wrong("statistics", absl::StrCat("must be true or false, not ", Quoted(statistics)));
    }
  }
  SampleType sample_type = SampleType::kU8;
  if (has("type")) {
    const auto parsed = ParseSampleType(type);
    if (!parsed.has_value()) {
      return Wrong("type", absl::StrCat(Quoted(type),
                                        " is none of u8, i8, u16, i16, u32, i32, u64, i64, f16, "
                                        "bf16, f32 and f64"));
    }
    sample_type = *parsed;
  }
  absl::StatusOr<v1::Spec> spec = SpecFromText(options, "");
  if (!spec.ok()) return spec;
  spec->set_sample_type(static_cast<v1::SampleType>(static_cast<int>(sample_type) + 1));
  // As on the command line: u8 and i8 have a range of their own.
  if (options.bins.has_value() && !has("range") && sample_type != SampleType::kU8 &&
      sample_type != SampleType::kI8) {
    spec->mutable_binning()->mutable_even()->set_range_of_data(true);
  }
  return spec;
}

}  // namespace histogram
