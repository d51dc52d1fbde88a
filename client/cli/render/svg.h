// Histograms as a standalone SVG, with panels one below the other. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_SVG_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_SVG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/render/report.h"

namespace histogram::cli {

struct Series {
  std::string name;
  std::string colour;  // #rrggbb
  std::vector<uint64_t> counts;
};

struct Panel {
  std::string title;
  std::string subtitle;
  std::vector<double> edges;
  std::vector<std::string> labels;  // one below each bin; empty: the axis has numbers
  std::vector<Series> series;       // each with edges.size() - 1 counts
  std::optional<double> threshold = std::nullopt;  // a dashed line behind this value
  std::string axis = "byte value";                 // what the edges are
  std::string nothing = "no samples";              // the text if all counts are 0
};

Panel PanelOf(const Report& report);
// Draws at most 2,048 bins a panel: of more the tallest of each few neighbours, and says so.
std::string RenderSvg(const std::vector<Panel>& panels);

// About `count` round numbers between low and high; two at least.
std::vector<double> NiceTicks(double low, double high, int count);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_SVG_H_
