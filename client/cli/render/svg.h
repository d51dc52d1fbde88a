// Histograms as a picture: a standalone SVG, one panel below the other. Pure; thread-safe.
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
  std::vector<std::string> labels;  // one a bin, written below it; empty: the axis has numbers
  std::vector<Series> series;       // each with edges.size() - 1 counts; one: bars, more: areas
  std::optional<double> threshold = std::nullopt;  // a dashed line behind this value
  // Where the axis ends; what is above is cut off, which is marked and said.
  std::optional<double> count_max = std::nullopt;
  std::string axis = "byte value";     // what the edges are
  std::string nothing = "no samples";  // said where all counts are 0
};

// The largest count of any series, bin by bin.
std::vector<uint64_t> Envelope(const std::vector<Series>& series);

Panel PanelOf(const Report& report);
std::string RenderSvg(const std::vector<Panel>& panels);

std::string BaseName(const std::string& path);

// Round numbers between low and high, about `count` steps apart; two at least.
std::vector<double> NiceTicks(double low, double high, int count);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_SVG_H_
