// A histogram as rows with bars, and other tables. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/render/report.h"

namespace histogram::cli {

// No line but the title is wider than `columns`, if these are 40 or more. `rows`: the most rows of
// bins; neighbours are merged as needed. 0: every bin has a row. Absent: long tables are folded and
// merged to a readable length.
std::string RenderTable(const Report& report, size_t columns,
                        std::optional<size_t> rows = std::nullopt);

// Columns as wide as they need to be, the last one broken where `columns` end; the first row is the
// heading. Where there is no room for the others each row is a list of its values behind their
// headings.
std::string RenderRows(const std::vector<std::vector<std::string>>& rows, size_t columns);

// A bar of `share` (0..1) of `width` cells, in eighths of a cell.
std::string Bar(double share, size_t width);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_
