#include "client/cli/render/report.h"

#include <histogram/number_text.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

bool IsPrintable(int value) { return value >= 0x20 && value < 0x7f; }

bool HoldsBytes(const v1::Spec& spec) { return TypeOf(spec) == SampleType::kU8; }

bool IsByte(double edge) { return edge >= 0 && edge <= 255 && edge == std::floor(edge); }

std::string SymbolText(int value) {
  return IsPrintable(value) && value != ' ' ? std::string(1, static_cast<char>(value))
                                            : absl::StrCat(value);
}

std::string InProcessText(const Report& report) {
  constexpr uint64_t kRateBytesMin = uint64_t{64} << 10;  // below, starting takes the time
  std::string text = absl::StrCat(report.receipt.kernel(),
                                  " in process: ", FormatNanoseconds(report.round_trip_ns));
  const uint64_t bytes = report.histogram.samples() * SampleBytes(TypeOf(report.spec));
  if (bytes >= kRateBytesMin && report.round_trip_ns > 0) {
    const double seconds = static_cast<double>(report.round_trip_ns) / 1e9;
    absl::StrAppend(&text, ", ", FormatRate(static_cast<double>(bytes) / seconds));
  }
  if (report.threads > 1) absl::StrAppend(&text, ", ", report.threads, " threads");
  return text;
}

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

std::string SamplesText(const Report& report) {
  const uint64_t samples = report.histogram.samples();
  return absl::StrCat(
      FormatCount(samples), " ",
      HoldsBytes(report.spec) ? "byte" : TypeName(report.spec.sample_type()) + " sample",
      samples == 1 ? "" : "s");
}

std::string BinsText(const Report& report) {
  const auto bins = static_cast<uint64_t>(report.histogram.counts_size());
  return absl::StrCat(FormatCount(bins), bins == 1 ? " bin" : " bins");
}

std::string ValueLabel(int value) {
  if (value == 0) return "0 NUL";
  if (value == '\t') return "9 \\t";
  if (value == '\n') return "10 \\n";
  if (value == '\r') return "13 \\r";
  return IsPrintable(value)
             ? absl::StrCat(value, " '", std::string(1, static_cast<char>(value)), "'")
             : absl::StrCat(value);
}

std::string BinLabel(const Report& report, const std::vector<double>& edges, size_t first,
                     size_t last) {
  const double low = edges[first];
  const double high = edges[last + 1];
  if (BinsAreSymbols(report.spec)) {
    const int from = static_cast<int>(low);
    const int to = static_cast<int>(high) - 1;
    return from == to ? SymbolText(from) : absl::StrCat(SymbolText(from), "-", SymbolText(to));
  }
  const bool closed = LastEdgeClosed(report.spec) && last + 2 == edges.size();
  // A closed upper edge is a second value, unless no byte has it.
  if (HoldsBytes(report.spec) && IsByte(low) && high == low + 1 && (!closed || high > 255)) {
    return ValueLabel(static_cast<int>(low));
  }
  // Edges may be closer than the digits that a table shows.
  const auto text = FormatNumber(low) == FormatNumber(high) ? NumberText<double> : FormatNumber;
  return absl::StrCat("[", text(low), ",", text(high), closed ? "]" : ")");
}

std::vector<std::string> StatisticsTexts(const Report& report) {
  std::vector<std::string> texts;
  if (!report.histogram.has_statistics()) return texts;
  const v1::Statistics& statistics = report.histogram.statistics();
  if (report.spec.statistics()) {
    for (const Statistic& one : StatisticsOf(report)) {
      texts.push_back(absl::StrCat(one.label, " ", FormatNumber(one.value)));
    }
  }
  for (int i = 0; i < std::min(statistics.quantiles_size(), report.spec.quantiles_size()); ++i) {
    texts.push_back(absl::StrCat("quantile ", FormatNumber(report.spec.quantiles(i)), ": ",
                                 FormatNumber(statistics.quantiles(i))));
  }
  return texts;
}

std::string ReceiptText(const Report& report) {
  const v1::Receipt& receipt = report.receipt;
  if (report.threads > 0) return InProcessText(report);
  std::vector<std::string> stages;
  const auto add = [&](const char* name, uint64_t ns) {
    if (ns > 0) stages.push_back(absl::StrCat(name, " ", FormatNanoseconds(ns)));
  };
  add("queue", receipt.queue_ns());
  add("gather", receipt.gather_ns());
  add("transfer", receipt.transfer_ns());
  add("kernel", receipt.kernel_ns());
  add("server", receipt.total_ns());
  add("round trip", report.round_trip_ns);
  std::string text = absl::StrCat(receipt.kernel().empty() ? "counted" : receipt.kernel(),
                                  receipt.backend().empty() ? "" : " on ", receipt.backend());
  if (!stages.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(stages, ", "));
  return SafeText(text);
}

std::string ReportsToCsv(const std::vector<Report>& reports) {
  std::string csv = "source,bin,lower,upper,count\n";
  for (const Report& report : reports) {
    const std::string source = CsvField(SafeText(report.source));
    // As JSON writes them: the shortest text that reads back as the same number.
    std::vector<std::string> edges;
    for (const double edge : EdgesOf(report)) edges.push_back(nlohmann::json(edge).dump());
    for (size_t bin = 0; bin + 1 < edges.size(); ++bin) {
      absl::StrAppend(&csv, source, ",", bin, ",", edges[bin], ",", edges[bin + 1]);
      absl::StrAppend(&csv, ",", report.histogram.counts(static_cast<int>(bin)), "\n");
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
