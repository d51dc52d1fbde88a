// Metrics as text for Prometheus.
#ifndef HISTOGRAM_SERVER_METRICS_TEXT_H_
#define HISTOGRAM_SERVER_METRICS_TEXT_H_

#include <prometheus/collectable.h>

#include <string>
#include <vector>

namespace histogram::server {

// All metrics of the collectables, in the text exposition format (version 0.0.4). Thread-safe.
std::string MetricsText(const std::vector<const prometheus::Collectable*>& collectables);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_TEXT_H_
