// Reports as text: for people, as tables with bars, and as CSV; and other tables. Thread-safe: no
// state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "forms/report.h"

namespace histogram::cli {

// "1,234 bytes", or "1 f32 sample".
std::string SamplesText(const Report& report);
// "16 bins".
std::string BinsText(const Report& report);

// A byte for people: 97 'a', 10 \n, 255.
std::string ValueLabel(int value);
// Bins first..last together: a byte, letters (a-f) or a range ([0,16), [240,256]).
// REQUIRES: first <= last < edges.size() - 1.
std::string BinLabel(const Report& report, const std::vector<double>& edges, size_t first,
                     size_t last);

// The statistics that were asked for: "mean 12.3" and so on.
std::vector<std::string> StatisticsTexts(const Report& report);
// What ran, and how long each stage took.
std::string ReceiptText(const Report& report);

// source,bin,lower,upper,count (RFC 4180, lines end in \n). After the bins of a source come its
// rows below, above, ignored and, if not 0, nan. So the counts of each source add up to its
// samples.
std::string ReportsToCsv(const std::vector<Report>& reports);

// No line but the title is wider than `columns`, if these are 40 or more. `rows`: the most rows of
// bins; neighbours are merged as needed. 0: every bin has a row. Absent: long tables are folded and
// merged to a readable length.
std::string RenderTable(const Report& report, size_t columns,
                        std::optional<size_t> rows = std::nullopt);

// Columns as wide as they need to be, the last one broken where `columns` end; the first row is the
// heading. Numbers are flush right. REQUIRES: rows of one length.
std::string RenderRows(const std::vector<std::vector<std::string>>& rows, size_t columns);

// A bar of `share` (0..1) of `width` cells, in eighths of a cell.
std::string Bar(double share, size_t width);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_
