#include "client/cli/render/svg.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr double kWidth = 960;
constexpr double kPanelHeight = 460;
constexpr double kLeft = 84;
constexpr double kRight = 28;
constexpr double kTop = 84;
constexpr double kBottom = 62;
constexpr size_t kLabelsMax = 40;
constexpr size_t kDrawnMax = 2048;    // more bins are drawn by the tallest of each few neighbours
constexpr size_t kSubtitleMax = 110;  // characters of a line

constexpr char kStyle[] =
    "<style>\n"
    "text{font-family:system-ui,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif;"
    "fill:#334155}\n"
    ".title{font-size:20px;font-weight:600;fill:#0f172a}\n"
    ".subtitle{font-size:13px;fill:#64748b}\n"
    ".tick{font-size:12px;fill:#64748b}\n"
    ".label{font-size:13px}\n"
    ".grid{stroke:#e2e8f0;stroke-width:1}\n"
    ".axis{stroke:#94a3b8;stroke-width:1}\n"
    ".threshold{stroke:#0f172a;stroke-width:1.5;stroke-dasharray:5 4}\n"
    "</style>\n";

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      SafeText(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

// Two decimals, without trailing zeros and without minus zero.
std::string Px(double value) {
  return absl::StrFormat("%.9g", std::round(value * 100) / 100 + 0.0);
}

// `most`: of the axis, which has one unit for all its numbers.
std::string ShortCount(double count, double most) {
  if (count == 0) return "0";
  if (most >= 1e10) return FormatNumber(count / 1e9) + " G";
  if (most >= 1e7) return FormatNumber(count / 1e6) + " M";
  if (most >= 1e4) return FormatNumber(count / 1e3) + " k";
  return FormatNumber(count);
}

std::string TextElement(double x, double y, const char* css, const char* anchor,
                        const std::string& text) {
  return absl::StrCat("<text x=\"", Px(x), "\" y=\"", Px(y), "\" class=\"", css,
                      "\" text-anchor=\"", anchor, "\">", Escape(text), "</text>\n");
}

std::string LineElement(double x1, double y1, double x2, double y2, const char* css) {
  return absl::StrCat("<line x1=\"", Px(x1), "\" y1=\"", Px(y1), "\" x2=\"", Px(x2), "\" y2=\"",
                      Px(y2), "\" class=\"", css, "\"/>\n");
}

// The panel with kDrawnMax bins at most. Each has the tallest count of the bins that it stands for.
Panel Thinned(Panel panel) {
  const size_t bins = panel.edges.size() - 1;
  if (bins <= kDrawnMax) return panel;
  const size_t group = (bins + kDrawnMax - 1) / kDrawnMax;
  std::vector<double> edges;
  for (size_t bin = 0; bin < bins; bin += group) edges.push_back(panel.edges[bin]);
  edges.push_back(panel.edges.back());
  for (Series& series : panel.series) {
    std::vector<uint64_t> tallest(edges.size() - 1);
    for (size_t bin = 0; bin < bins; ++bin) {
      tallest[bin / group] = std::max(tallest[bin / group], series.counts[bin]);
    }
    series.counts = std::move(tallest);
  }
  panel.edges = std::move(edges);
  absl::StrAppend(&panel.subtitle, ", drawn by the tallest of each ", FormatCount(group));
  return panel;
}

// Draws one panel; `top` is where it begins.
class PanelPainter {
 public:
  PanelPainter(Panel panel, double top) : panel_(std::move(panel)), top_(top) {
    for (const Series& series : panel_.series) {
      for (const uint64_t count : series.counts) {
        tallest_ = std::max(tallest_, static_cast<double>(count));
      }
    }
    ticks_ = NiceTicks(0, tallest_, 6);
    most_ = std::max(tallest_, ticks_.back());
  }

  std::string Paint() {
    Heading();
    AxisY();
    for (const Series& series : panel_.series) Bars(series);
    if (panel_.series.size() > 1) Legend();
    AxisX();
    Threshold();
    if (tallest_ == 0) {
      svg_ += TextElement((kLeft + kWidth - kRight) / 2, (top_ + kTop + Bottom()) / 2, "subtitle",
                          "middle", panel_.nothing);
    }
    return std::move(svg_);
  }

 private:
  bool Categories() const { return !panel_.labels.empty(); }
  double Bottom() const { return top_ + kPanelHeight - kBottom; }
  double X(double value) const {
    // The halves: the distance of two doubles may be none.
    const double low = panel_.edges.front() / 2;
    const double high = panel_.edges.back() / 2;
    return kLeft + (value / 2 - low) / (high - low) * (kWidth - kLeft - kRight);
  }
  double Y(double count) const {
    return Bottom() - count / most_ * (kPanelHeight - kTop - kBottom);
  }

  void Heading() {
    const size_t room = panel_.series.size() > 1 ? 38 : 75;  // beside the legend
    svg_ += TextElement(kLeft, top_ + 38, "title", "start", Truncate(SafeText(panel_.title), room));
    svg_ += TextElement(kLeft, top_ + 60, "subtitle", "start",
                        Truncate(SafeText(panel_.subtitle), kSubtitleMax));
  }

  void AxisY() {
    for (const double tick : ticks_) {
      svg_ += LineElement(kLeft, Y(tick), kWidth - kRight, Y(tick), "grid");
      svg_ += TextElement(kLeft - 10, Y(tick) + 4, "tick", "end", ShortCount(tick, ticks_.back()));
    }
    const double middle = (top_ + kTop + Bottom()) / 2;
    absl::StrAppend(&svg_, "<text transform=\"translate(22 ", Px(middle),
                    ") rotate(-90)\" class=\"label\" text-anchor=\"middle\">count</text>\n");
  }

  void AxisX() {
    svg_ += LineElement(kLeft, Bottom(), kWidth - kRight, Bottom(), "axis");
    if (Categories()) {
      for (size_t bin = 0; bin < panel_.labels.size(); ++bin) {
        const double middle = (X(panel_.edges[bin]) + X(panel_.edges[bin + 1])) / 2;
        svg_ += TextElement(middle, Bottom() + 20, "tick", "middle", panel_.labels[bin]);
      }
    } else {
      for (const double tick : TicksX()) {
        svg_ += LineElement(X(tick), Bottom(), X(tick), Bottom() + 5, "axis");
        svg_ += TextElement(X(tick), Bottom() + 20, "tick", "middle", FormatNumber(tick));
      }
    }
    svg_ +=
        TextElement((kLeft + kWidth - kRight) / 2, Bottom() + 46, "label", "middle", panel_.axis);
  }

  std::vector<double> TicksX() const {
    const double low = panel_.edges.front();
    const double high = panel_.edges.back();
    // Powers of two read better for bytes than round tens.
    if (low == 0 && high == 256) return {0, 32, 64, 96, 128, 160, 192, 224, 256};
    return NiceTicks(low, high, 10);
  }

  // All bars of a series as one shape.
  void Bars(const Series& series) {
    const double gap = Categories() ? 0.2 : series.counts.size() <= 256 ? 0.1 : 0;  // of a bin
    std::string path;
    for (size_t bin = 0; bin < series.counts.size(); ++bin) {
      if (series.counts[bin] == 0) continue;
      const double left = X(panel_.edges[bin]), right = X(panel_.edges[bin + 1]);
      const double inset = (right - left) * gap / 2;
      // A bin that is not empty can be seen, however small its count.
      const double y = std::min(Y(static_cast<double>(series.counts[bin])), Bottom() - 0.6);
      absl::StrAppend(&path, "M", Px(left + inset), " ", Px(Bottom()), "V", Px(y), "H",
                      Px(right - inset), "V", Px(Bottom()), "Z");
    }
    absl::StrAppend(&svg_, "<path d=\"", path, "\" fill=\"", series.colour, "\" fill-opacity=\"",
                    panel_.series.size() == 1 ? "1" : "0.4", "\"><title>", Escape(series.name),
                    "</title></path>\n");
  }

  void Legend() {
    double x = kWidth - kRight;
    for (auto series = panel_.series.rbegin(); series != panel_.series.rend(); ++series) {
      x -= 9.0 * static_cast<double>(DisplayWidth(series->name)) + 30;
      absl::StrAppend(&svg_, "<rect x=\"", Px(x), "\" y=\"", Px(top_ + 28),
                      "\" width=\"12\" height=\"12\" rx=\"2\" fill=\"", series->colour,
                      "\" fill-opacity=\"0.75\"/>\n");
      svg_ += TextElement(x + 18, top_ + 38, "label", "start", series->name);
    }
  }

  void Threshold() {
    if (!panel_.threshold.has_value()) return;
    // Values up to the threshold are dark, so the line is drawn behind it.
    const double x = X(*panel_.threshold + 1);
    svg_ += LineElement(x, top_ + kTop - 6, x, Bottom(), "threshold");
    const bool left = x > kWidth * 0.75;
    svg_ += TextElement(left ? x - 8 : x + 8, top_ + kTop + 18, "label", left ? "end" : "start",
                        "Otsu's threshold " + FormatNumber(*panel_.threshold));
  }

  const Panel panel_;
  const double top_;
  double tallest_ = 0;  // count of any series
  double most_ = 0;     // where the axis ends
  std::vector<double> ticks_;
  std::string svg_;
};

}  // namespace

std::vector<double> NiceTicks(double low, double high, int count) {
  if (!(high > low)) return {low, low + 1};
  const double raw = high / count - low / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9) && ticks.size() < 100;
       ++i) {
    ticks.push_back(i * step == 0 ? 0 : i * step);  // no minus zero
  }
  if (ticks.size() < 2) return {low, high};
  return ticks;
}

Panel PanelOf(const Report& report) {
  Panel panel;
  panel.title = std::filesystem::path(report.source).filename();
  const v1::Histogram& histogram = report.histogram;
  std::vector<std::string> facts = {SamplesText(report), BinsText(report)};
  if (histogram.below() > 0) facts.push_back(FormatCount(histogram.below()) + " below");
  if (histogram.above() > 0) facts.push_back(FormatCount(histogram.above()) + " above");
  if (histogram.ignored() > 0) facts.push_back(FormatCount(histogram.ignored()) + " ignored");
  if (histogram.nan() > 0) facts.push_back(FormatCount(histogram.nan()) + " NaN");
  for (std::string& text : StatisticsTexts(report)) facts.push_back(std::move(text));
  panel.subtitle = absl::StrJoin(facts, ", ");
  panel.edges = EdgesOf(report);
  if (TypeOf(report.spec) != SampleType::kU8) {
    panel.axis = TypeName(report.spec.sample_type()) + " value";
  }
  if (BinsAreSymbols(report.spec) && panel.edges.size() <= kLabelsMax + 1) {
    // Bars of one width each: of bars as wide as their groups are large the eye compares the areas.
    for (size_t bin = 0; bin + 1 < panel.edges.size(); ++bin) {
      panel.labels.push_back(BinLabel(report, panel.edges, bin, bin));
    }
    for (size_t bin = 0; bin < panel.edges.size(); ++bin) {
      panel.edges[bin] = static_cast<double>(bin);
    }
    panel.axis = "symbols";
  }
  if (histogram.samples() > 0) panel.nothing = "no samples in the bins";
  panel.series.push_back(
      {"count", "#0e7490", {histogram.counts().begin(), histogram.counts().end()}});
  return panel;
}

std::string RenderSvg(const std::vector<Panel>& panels) {
  const double height = kPanelHeight * static_cast<double>(std::max<size_t>(panels.size(), 1));
  const std::string title = panels.empty() ? "" : Escape(panels.front().title);
  std::string svg = absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
      Px(kWidth), "\" height=\"", Px(height), "\" viewBox=\"0 0 ", Px(kWidth), " ", Px(height),
      "\" role=\"img\">\n<title>Histogram of ", title, "</title>\n", kStyle,
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  for (size_t i = 0; i < panels.size(); ++i) {
    svg += PanelPainter(Thinned(panels[i]), kPanelHeight * static_cast<double>(i)).Paint();
  }
  return svg + "</svg>\n";
}

}  // namespace histogram::cli
