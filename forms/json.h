// Histograms as JSON. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_JSON_H_
#define HISTOGRAM_FORMS_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "forms/report.h"

namespace histogram {

inline constexpr char kSchema[] = "histogram/v1";

// {"schema": ..., "histograms": [{"source", "sample_type", "binning", "edges", "last_edge_closed",
// "counts", "samples", "below", "above", "ignored", "nan", "statistics", "receipt"}, ...]}
// With rows "rows" has the counts, and all else that the API's RowAnswers has, as columns.
// The receipt's "in_process" is true if this process counted rather than a server. Then total_ns
// and round_trip_ns add up what looking at the input, counting it, and its statistics took.
nlohmann::ordered_json ReportsToJson(const std::vector<Report>& reports);

nlohmann::ordered_json DescriptionToJson(const v1::DescribeResponse& description);

// One line of JSON.
std::string Dump(const nlohmann::ordered_json& json);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_JSON_H_
