// One counted input, for all output formats. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::cli {

struct Report {
  std::string source;  // the user's name of it; pass it through SafeText before showing it
  v1::Spec spec = {};
  v1::Histogram histogram = {};
  v1::Receipt receipt = {};
  uint64_t round_trip_ns = 0;    // until the answer came
  size_t threads = 0;            // that counted in this process; 0: a server counted
  absl::Status incomplete = {};  // why the rest of the input was not counted; OK: all of it was
};

// The edges, one more than bins. If the server sends none (a bin for each value, an alphabet), they
// are byte values: bin i holds the values v with edge_i <= v < edge_i+1.
std::vector<double> EdgesOf(const Report& report);
// Whether the last bin also holds its upper edge.
bool LastEdgeClosed(const v1::Spec& spec);
// The kind of binning: values, even, edges, alphabet.
std::string BinningKind(const v1::Spec& spec);

// The type of spec.sample_type.
SampleType TypeOf(const v1::Spec& spec);
// "u8", "i8" ... "f64"; for an unknown type its number.
std::string TypeName(v1::SampleType type);
// "1,234 bytes", or "1 f32 sample".
std::string SamplesText(const Report& report);
// "16 bins".
std::string BinsText(const Report& report);

// Whether each bin holds one of the 256 values.
bool BinsAreValues(const Report& report);

// A byte for people: 97 'a', 10 \n, 255.
std::string ValueLabel(int value);
// Bins first..last together: a byte, letters (a-f) or a range ([0,16), [240,256]).
// REQUIRES: first <= last < edges.size() - 1.
std::string BinLabel(const Report& report, const std::vector<double>& edges, size_t first,
                     size_t last);

// A statistic that the report has; its name in JSON, and for people. Quantiles are apart.
struct Statistic {
  const char* name;
  const char* label;
  double value;
};
std::vector<Statistic> StatisticsOf(const Report& report);
// The statistics that were asked for: "mean 12.3" and so on.
std::vector<std::string> StatisticsTexts(const Report& report);
// What ran, and how long each stage took.
std::string ReceiptText(const Report& report, bool utf8);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_REPORT_H_
