#include "client/cli/render/report.h"

#include <histogram/number_text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

bool IsPrintable(int value) { return value >= 0x20 && value < 0x7f; }

bool HoldsBytes(const v1::Spec& spec) { return TypeOf(spec) == SampleType::kU8; }

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
  return text;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

constexpr size_t kRowsWithoutGrouping = 100;
constexpr size_t kRowsGrouped = 32;
constexpr size_t kBinsWithoutFolding = 32;
constexpr size_t kColumnsMax = 120;
constexpr size_t kBarMin = 6;

struct Row {
  size_t first = 0;
  size_t last = 0;
  uint64_t count = 0;
  bool folded = false;  // a run of empty bins
};

std::vector<Row> MakeRows(const v1::Histogram& histogram, size_t group, bool fold) {
  const auto bins = static_cast<size_t>(histogram.counts_size());
  std::vector<Row> rows;
  for (size_t first = 0; first < bins; first += group) {
    const size_t last = std::min(first + group, bins) - 1;
    Row row = {first, last};
    for (size_t bin = first; bin <= last; ++bin) {
      row.count += histogram.counts(static_cast<int>(bin));
    }
    if (fold && row.count == 0 && !rows.empty() && rows.back().count == 0) {
      rows.back().last = last;
      rows.back().folded = true;
    } else {
      rows.push_back(row);
    }
  }
  return rows;
}

struct Layout {
  std::vector<Row> rows;
  size_t group = 1;
};

Layout LayOut(const v1::Histogram& histogram, std::optional<size_t> limit) {
  if (limit == size_t{0}) return {MakeRows(histogram, 1, false)};
  const bool fold = static_cast<size_t>(histogram.counts_size()) > kBinsWithoutFolding;
  Layout layout = {MakeRows(histogram, 1, fold)};
  if (layout.rows.size() <= limit.value_or(kRowsWithoutGrouping)) return layout;
  while (layout.rows.size() > limit.value_or(kRowsGrouped)) {
    layout.group *= 2;
    layout.rows = MakeRows(histogram, layout.group, fold);
  }
  return layout;
}

using Rows = std::vector<std::vector<std::string>>;

struct Column {
  size_t width = 0;
  bool numbers = false;  // which end where the others end
};

std::vector<Column> ColumnsOf(const Rows& rows) {
  std::vector<Column> columns(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      columns[i].width = std::max(columns[i].width, DisplayWidth(row[i]));
      columns[i].numbers |= i > 0 && absl::ascii_isdigit(static_cast<unsigned char>(row[i][0]));
    }
  }
  return columns;
}

std::string RenderBins(const Report& report, const std::vector<Row>& bins, size_t columns) {
  const v1::Histogram& histogram = report.histogram;
  const std::vector<double> edges = EdgesOf(report);
  Rows rows = {{"bin", "count", "share", ""}};
  const auto add = [&](const std::string& label, uint64_t count) {
    rows.push_back({label, FormatCount(count), FormatShare(count, histogram.samples()), ""});
  };
  uint64_t most = 1;
  for (const Row& row : bins) {
    most = std::max(most, row.count);
    if (row.folded) {
      rows.push_back({"…", absl::StrCat(FormatCount(row.last - row.first + 1), " empty"), "", ""});
    } else {
      add(BinLabel(report, edges, row.first, row.last), row.count);
    }
  }
  if (histogram.below() > 0) add("below", histogram.below());
  if (histogram.above() > 0) add("above", histogram.above());
  if (histogram.ignored() > 0) add("ignored", histogram.ignored());
  if (histogram.nan() > 0) add("NaN", histogram.nan());
  size_t used = 0;
  for (const Column& column : ColumnsOf(rows)) used += 2 + column.width;
  for (size_t i = 0; used + kBarMin <= columns && i < bins.size(); ++i) {
    const double share = static_cast<double>(bins[i].count) / static_cast<double>(most);
    rows[i + 1].back() = Bar(share, columns - used);
  }
  return RenderRows(rows, columns);
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
  const bool is_byte = low >= 0 && low <= 255 && low == std::floor(low);
  // A closed upper edge is a second value, unless no byte has it.
  if (HoldsBytes(report.spec) && is_byte && high == low + 1 && (!closed || high > 255)) {
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
  if (report.in_process) return InProcessText(report);
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

std::string Bar(double share, size_t width) {
  if (!(share > 0) || width == 0) return "";
  share = std::min(share, 1.0);
  static constexpr std::array<const char*, 8> kPart = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double exact = std::round(share * static_cast<double>(width) * 8);
  const size_t eighths = std::max<size_t>(static_cast<size_t>(exact), 1);
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kPart[eighths % 8];
  return bar;
}

std::string RenderRows(const Rows& rows, size_t columns) {
  const std::vector<Column> layout = ColumnsOf(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const auto pad = layout[i].numbers ? PadLeft : PadRight;
      absl::StrAppend(&line, "  ", pad(row[i], layout[i].width));
    }
    line += "  ";
    line += Hanging(row.back(), DisplayWidth(line), columns);
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string RenderTable(const Report& report, size_t columns, std::optional<size_t> rows) {
  columns = std::min(columns, kColumnsMax);
  const Layout layout = LayOut(report.histogram, rows);
  std::string text = absl::StrCat(SafeText(report.source), ": ", SamplesText(report), ", ",
                                  BinsText(report), "\n\n");
  text += RenderBins(report, layout.rows, columns);
  const std::vector<std::string> statistics = StatisticsTexts(report);
  if (!statistics.empty()) absl::StrAppend(&text, "\n", Wrap(statistics, columns));
  text += "\n";
  if (layout.group > 1) {
    text +=
        Wrap({absl::StrCat("bins are shown ", layout.group, " to a row"), "--rows all shows each"},
             columns);
  }
  return text + Wrap(absl::StrSplit(ReceiptText(report), ", "), columns);
}

}  // namespace histogram::cli
