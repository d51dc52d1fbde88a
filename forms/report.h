// One counted input, and what its answer says beside its numbers. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_REPORT_H_
#define HISTOGRAM_FORMS_REPORT_H_

#include <histogram/binning.h>
#include <histogram/sample_type.h>
#include <histogram/statistics.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "forms/binning.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram {

// Valid UTF-8 without control characters and those that reorder text. A space replaces a tab and a
// line feed, U+FFFD each other of these and each invalid byte. File names and servers' messages
// must not control a terminal or break JSON or XML.
std::string SafeText(absl::string_view text);

struct Report {
  std::string source;  // the user's name of it; pass it through SafeText before showing it
  v1::Spec spec = {};
  v1::Histogram histogram = {};
  v1::Receipt receipt = {};
  uint64_t round_trip_ns = 0;  // until the answer came
  bool in_process = false;     // this process counted, and no server
  v1::RowAnswers rows = {};    // with spec.rows
};

// What was counted, as the parts of an answer.
void SetCounts(const Histogram& from, v1::Histogram& to);
void SetStatistics(const Statistics& from, v1::Statistics& to);

// The edges, one more than bins: the server's, else EdgesByValue. Empty if each row has its own.
std::vector<double> EdgesOf(const Report& report);

// The type of spec.sample_type; u8 for an unknown one.
SampleType TypeOf(const v1::Spec& spec);
// "u8", "i8" ... "f64"; for an unknown type its number.
std::string TypeName(v1::SampleType type);

// A statistic that the report has; its name in JSON, and for people. Quantiles are apart.
struct Statistic {
  const char* name;
  const char* label;
  double value;
};
std::vector<Statistic> StatisticsOf(const Report& report);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_REPORT_H_
