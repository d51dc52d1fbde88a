#include "client/cli/render/export.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string ReportsToCsv(const std::vector<Report>& reports) {
  std::string csv = "source,bin,lower,upper,count\n";
  for (const Report& report : reports) {
    const std::string source = CsvField(SafeText(report.source));
    const std::vector<double> edges = EdgesOf(report);
    for (size_t bin = 0; bin + 1 < edges.size(); ++bin) {
      // As JSON writes them: the shortest text that reads back as the same number.
      absl::StrAppend(&csv, source, ",", bin, ",", Json(edges[bin]).dump(), ",",
                      Json(edges[bin + 1]).dump(), ",",
                      report.histogram.counts(static_cast<int>(bin)), "\n");
    }
    absl::StrAppend(&csv, source, ",below,,,", report.histogram.below(), "\n");
    absl::StrAppend(&csv, source, ",above,,,", report.histogram.above(), "\n");
    absl::StrAppend(&csv, source, ",ignored,,,", report.histogram.ignored(), "\n");
    if (report.histogram.nan() > 0) {
      absl::StrAppend(&csv, source, ",nan,,,", report.histogram.nan(), "\n");
    }
  }
  return csv;
}

}  // namespace histogram::cli
