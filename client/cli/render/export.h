// Histograms as CSV. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_

#include <string>
#include <vector>

#include "client/cli/render/report.h"
#include "forms/json.h"

namespace histogram::cli {

// source,bin,lower,upper,count (RFC 4180, lines end in \n). After the bins of a source come its
// rows below, above, ignored and, if not 0, nan. So the counts of each source add up to its
// samples.
std::string ReportsToCsv(const std::vector<Report>& reports);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_EXPORT_H_
