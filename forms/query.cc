#include "forms/query.h"

#include <histogram/sample_type.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "forms/options.h"

namespace histogram {
namespace {

absl::Status Wrong(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

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
    uint32_t byte = 0;
    static_cast<void>(absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte));
    decoded.push_back(static_cast<char>(byte));
    i += 2;
  }
  return decoded;
}

template <typename Count>
bool ReadCount(absl::string_view text, Count& count) {
  return absl::c_all_of(text, absl::ascii_isdigit) && absl::SimpleAtoi(text, &count) && count > 0;
}

// "SAMPLES" or "SAMPLES:STEP".
absl::Status SetWindows(absl::string_view text, v1::Rows& rows) {
  const size_t colon = std::min(text.find(':'), text.size());
  uint64_t samples = 0, step = 0;
  if (!ReadCount(text.substr(0, colon), samples) ||
      (colon < text.size() && !ReadCount(text.substr(colon + 1), step))) {
    return Wrong("windows", absl::StrCat("write SAMPLES or SAMPLES:STEP, whole numbers from 1 to ",
                                         UINT64_MAX, ", not ", Quoted(text)));
  }
  rows.mutable_windows()->set_samples(samples);
  rows.mutable_windows()->set_step(step);
  return absl::OkStatus();
}

// Parameters by name, with the value where one was given.
using Parameters = std::map<std::string, std::optional<std::string>>;

absl::StatusOr<Parameters> Split(absl::string_view query) {
  Parameters parameters;
  for (const char* const name :
       {"bins", "range", "type", "quantiles", "statistics", "windows", "channels"}) {
    parameters[name];
  }
  for (const BinningOption& kind : BinningOptions()) parameters[kind.name];
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = std::min(part.find('='), part.size());
    const auto name = Decode(part.substr(0, equals));
    auto value = Decode(part.substr(std::min(equals + 1, part.size())));
    if (!name.has_value() || !value.has_value()) {
      return Wrong("query", absl::StrCat(Quoted(part), " has a % without two hexadecimal digits"));
    }
    const auto found = parameters.find(*name);
    if (found == parameters.end()) {
      const auto append = [](std::string* out, const auto& one) { out->append(one.first); };
      return Wrong("query", absl::StrCat(Quoted(*name), " is no parameter; there are ",
                                         absl::StrJoin(parameters, ", ", append)));
    }
    if (found->second.has_value()) return Wrong(*name, "give it once");
    if (value->empty() && *name != "statistics") return Wrong(*name, "must not be empty");
    found->second = *std::move(value);
  }
  return parameters;
}

// `count` where the parameter was given.
absl::Status SetCount(const Parameters& parameters, const char* name,
                      std::optional<uint32_t>& count) {
  const std::optional<std::string>& text = parameters.at(name);
  if (!text.has_value() || ReadCount(*text, count.emplace())) return absl::OkStatus();
  return Wrong(
      name, absl::StrCat("must be a whole number from 1 to ", UINT32_MAX, ", not ", Quoted(*text)));
}

}  // namespace

absl::StatusOr<v1::Spec> SpecFromQuery(absl::string_view query) {
  absl::StatusOr<Parameters> parameters = Split(query);
  if (!parameters.ok()) return parameters.status();
  const auto of = [&](const char* name) -> auto& { return (*parameters)[name]; };
  if (of("range").has_value() && !of("bins").has_value()) return Wrong("range", "needs bins");
  SpecOptions options;
  std::vector<const char*> kinds = {"bins"};
  for (size_t i = 0; i < options.binnings.size(); ++i) {
    const char* const name = BinningOptions()[i].name;
    options.binnings[i] = of(name).value_or("");
    if (of(name).has_value() &&
        absl::c_any_of(kinds, [&](const char* kind) { return of(kind).has_value(); })) {
      return Wrong(name, absl::StrCat("excludes ", absl::StrJoin(kinds, " and ")));
    }
    kinds.push_back(name);
  }
  std::optional<uint32_t> channels;
  absl::Status status = SetCount(*parameters, "bins", options.bins);
  status.Update(SetCount(*parameters, "channels", channels));
  if (!status.ok()) return status;
  if (const auto& text = of("statistics"); text.has_value()) {
    options.statistics = text->empty() || *text == "1" || *text == "true";
    if (!options.statistics && *text != "0" && *text != "false") {
      return Wrong("statistics", absl::StrCat("must be true or false, not ", Quoted(*text)));
    }
  }
  const std::string type = of("type").value_or("u8");
  const std::optional<SampleType> sample_type = ParseSampleType(type);
  if (!sample_type.has_value()) {
    const auto append = [](std::string* out, const SampleTypeInfo& one) { out->append(one.name); };
    return Wrong("type", absl::StrCat(Quoted(type), " is none of ",
                                      absl::StrJoin(kSampleTypeList, ", ", append)));
  }
  const bool rows_ranges = of("range") == "rows";
  if (!rows_ranges) options.range = of("range").value_or("");
  options.quantiles = of("quantiles").value_or("");
  absl::StatusOr<v1::Spec> spec = SpecFromText(options, "");
  if (!spec.ok()) return spec;
  spec->set_sample_type(static_cast<v1::SampleType>(InfoOf(*sample_type).number));
  if (channels.has_value()) spec->mutable_rows()->set_channels(*channels);
  if (const auto& text = of("windows"); text.has_value()) {
    status = SetWindows(*text, *spec->mutable_rows());
    if (!status.ok()) return status;
  }
  if (rows_ranges) {
    if (!spec->has_rows()) return Wrong("range", "rows needs windows or channels");
    spec->mutable_binning()->mutable_even()->set_range_of_row(true);
    spec->set_edges(false);  // each row has its own
  } else if (options.bins.has_value() && options.range.empty() && !HasWholeRange(*sample_type)) {
    spec->mutable_binning()->mutable_even()->set_range_of_data(true);
  }
  return spec;
}

}  // namespace histogram
