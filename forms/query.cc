#include "forms/query.h"

#include <histogram/sample_type.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
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

// "a, b and c".
std::string AllOf(absl::Span<const std::string> names) {
  return absl::StrCat(absl::StrJoin(names.first(names.size() - 1), ", "), " and ", names.back());
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

// "SAMPLES" or "SAMPLES:STEP".
absl::Status SetWindows(const std::string& text, v1::Rows& rows) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  uint64_t numbers[] = {0, 0};
  bool good = parts.size() <= 2;
  for (size_t i = 0; good && i < parts.size(); ++i) {
    good = absl::c_all_of(parts[i], absl::ascii_isdigit) &&
           absl::SimpleAtoi(parts[i], &numbers[i]) && numbers[i] > 0;
  }
  if (!good) {
    return Wrong("windows", absl::StrCat("write SAMPLES or SAMPLES:STEP, whole numbers >= 1, not ",
                                         Quoted(text)));
  }
  rows.mutable_windows()->set_samples(numbers[0]);
  rows.mutable_windows()->set_step(numbers[1]);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CountFrom(absl::string_view name, const std::string& text) {
  uint32_t count = 0;
  if (absl::c_all_of(text, absl::ascii_isdigit) && absl::SimpleAtoi(text, &count) && count > 0) {
    return count;
  }
  return Wrong(name, absl::StrCat("must be a whole number >= 1, not ", Quoted(text)));
}

// The part of the spec that cuts the payload into rows.
absl::Status SetRows(const std::string& windows, const std::string& channels, v1::Spec& spec) {
  if (!windows.empty()) {
    const absl::Status status = SetWindows(windows, *spec.mutable_rows());
    if (!status.ok()) return status;
  }
  if (!channels.empty()) {
    const absl::StatusOr<uint32_t> count = CountFrom("channels", channels);
    if (!count.ok()) return count.status();
    spec.mutable_rows()->set_channels(*count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Spec> SpecFromQuery(absl::string_view query) {
  std::string bins, type, statistics, windows, channels;
  SpecOptions options;
  std::map<std::string, std::string*> known = {{"bins", &bins},
                                               {"range", &options.range},
                                               {"type", &type},
                                               {"quantiles", &options.quantiles},
                                               {"statistics", &statistics},
                                               {"windows", &windows},
                                               {"channels", &channels}};
  for (size_t i = 0; i < options.binnings.size(); ++i) {
    known.emplace(BinningOptions()[i].name, &options.binnings[i]);
  }
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
      std::vector<std::string> names;
      names.reserve(known.size());
      for (const auto& [parameter, text] : known) names.push_back(parameter);
      return Wrong("query",
                   absl::StrCat(Quoted(*name), " is no parameter; there are ", AllOf(names)));
    }
    if (!given.emplace(*name, found->second).second) return Wrong(*name, "give it once");
    *found->second = *value;
    if (value->empty() && *name != "statistics") return Wrong(*name, "must not be empty");
  }
  const auto has = [&](absl::string_view name) { return given.count(std::string(name)) > 0; };
  if (has("range") && !has("bins")) return Wrong("range", "needs bins");
  std::vector<std::string> kinds = {"bins"};
  for (const BinningOption& kind : BinningOptions()) {
    if (has(kind.name) && absl::c_any_of(kinds, has)) {
      return Wrong(kind.name, absl::StrCat("excludes ", absl::StrJoin(kinds, " and ")));
    }
    kinds.emplace_back(kind.name);
  }
  if (has("bins")) {
    const absl::StatusOr<uint32_t> count = CountFrom("bins", bins);
    if (!count.ok()) return count.status();
    options.bins = *count;
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
      std::vector<std::string> names;
      for (const SampleTypeInfo& info : kSampleTypeList) names.emplace_back(info.name);
      return Wrong("type", absl::StrCat(Quoted(type), " is none of ", AllOf(names)));
    }
    sample_type = *parsed;
  }
  const bool rows_ranges = options.range == "rows";
  if (rows_ranges) options.range.clear();
  absl::StatusOr<v1::Spec> spec = SpecFromText(options, "");
  if (!spec.ok()) return spec;
  spec->set_sample_type(static_cast<v1::SampleType>(InfoOf(sample_type).number));
  if (absl::Status status = SetRows(windows, channels, *spec); !status.ok()) return status;
  if (rows_ranges) {
    if (!spec->has_rows()) return Wrong("range", "rows needs windows or channels");
    spec->mutable_binning()->mutable_even()->set_range_of_row(true);
    spec->set_edges(false);  // each row has its own
  } else if (options.bins.has_value() && !has("range") && !HasWholeRange(sample_type)) {
    spec->mutable_binning()->mutable_even()->set_range_of_data(true);
  }
  return spec;
}

}  // namespace histogram
