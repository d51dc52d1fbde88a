// What the metrics tests share: a described machine, and looking up a series in what was collected.
#ifndef HISTOGRAM_TESTS_METRICS_METRICS_FIXTURE_H_
#define HISTOGRAM_TESTS_METRICS_METRICS_FIXTURE_H_

#include <prometheus/metric_family.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/metrics/server_metrics.h"

namespace histogram::server {

using Labels = std::map<std::string, std::string>;

inline KernelChoice Choice(const std::string& kernel, uint64_t payload_bytes_max,
                           uint64_t cost_ns) {
  KernelChoice choice;
  choice.bin_count_max = 65536;
  choice.payload_bytes_max = payload_bytes_max;
  choice.payloads_max = 64;
  choice.kernel = kernel;
  choice.cost_ns = cost_ns;
  return choice;
}

// A CPU and a GPU.
inline MetricsOptions TwoBackends() {
  MetricsOptions options;
  options.backends = {
      {"cuda:0",
       "NVIDIA \"H200\"\n",
       "GPU-1234",
       "550.54",
       {"lane_private", "naive"},
       {Choice("lane_private", 1 << 20, 20000), Choice("lane_private", 1 << 20, 7)}},
      {"cpu",
       "AMD EPYC",
       "",
       "",
       {"scalar", "tables8"},
       {Choice("tables8", 4096, 1500), Choice("tables8", UINT64_MAX, 0)}}};
  options.build = {"0.1.0", "abc1234", "GNU 12.2.0", "Release"};
  return options;
}

inline const prometheus::MetricFamily* FindFamily(
    const std::vector<prometheus::MetricFamily>& families, const std::string& name) {
  for (const auto& family : families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

// The series with exactly these labels.
inline std::optional<prometheus::ClientMetric> Find(const ServerMetrics& from,
                                                    const std::string& name,
                                                    const Labels& labels = {}) {
  const auto families = from.Collect();
  const prometheus::MetricFamily* family = FindFamily(families, name);
  if (family == nullptr) return std::nullopt;
  for (const auto& metric : family->metric) {
    Labels found;
    for (const auto& label : metric.label) found[label.name] = label.value;
    if (found == labels) return metric;
  }
  return std::nullopt;
}

// -1 where there is no such series.
inline double Counter(const ServerMetrics& from, const std::string& name,
                      const Labels& labels = {}) {
  const auto metric = Find(from, name, labels);
  return metric ? metric->counter.value : -1;
}
inline double Gauge(const ServerMetrics& from, const std::string& name, const Labels& labels = {}) {
  const auto metric = Find(from, name, labels);
  return metric ? metric->gauge.value : -1;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_METRICS_METRICS_FIXTURE_H_
