// Histograms as JSON and CSV. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/render/report.h"

namespace histogram::cli {

inline constexpr char kSchema[] = "histogram/v1";

// {"schema": ..., "histograms": [{"source", "binning", "edges", "last_edge_closed", "counts",
// "sample_type", "samples", "below", "above", "ignored", "nan", "statistics", "receipt"}, ...]}
// The receipt's "in_process" is true if this process counted rather than a server. Then kernel_ns
// is the sum over threads; total_ns and round_trip_ns run from the first byte read to the last
// counted.
nlohmann::ordered_json ReportsToJson(const std::vector<Report>& reports);

// source,bin,lower,upper,count (RFC 4180, lines end in \n). After the bins of a source come its
// rows below, above, ignored and, if not 0, nan. So the counts of each source add up to its
// samples.
std::string ReportsToCsv(const std::vector<Report>& reports);

nlohmann::ordered_json DescriptionToJson(const v1::DescribeResponse& description);

// One line of JSON.
std::string Dump(const nlohmann::ordered_json& json);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_
