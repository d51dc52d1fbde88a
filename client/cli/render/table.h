// A histogram as rows with bars. Pure; thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/render/report.h"
#include "client/cli/render/terminal.h"

namespace histogram::cli {

struct TableOptions {
  Terminal terminal;
  // At most so many rows of bins, neighbours put together as needed; 0: every bin has its row.
  // Absent: long tables are folded and put together so that they can be read.
  std::optional<size_t> rows = std::nullopt;
};

// No line is wider than the terminal, from 40 columns on.
std::string RenderTable(const Report& report, const TableOptions& options);

// `share` (0..1) of `width` cells, in eighths of a cell where the terminal can.
std::string Bar(double share, size_t width, bool utf8);

// All counts in one line of `width` characters. Where a few would flatten the others they are cut
// off, and marked.
std::string CutOffMark(bool utf8);
std::string Sparkline(const std::vector<uint64_t>& counts, size_t width, bool utf8);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_TABLE_H_
