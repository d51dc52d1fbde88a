// The process_ metrics of Prometheus clients: CPU time, memory, file descriptors, start time.
#ifndef HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
#define HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace histogram::server {

// Appends them. Asks the kernel at each call, and leaves out what it does not tell. Thread-safe.
void CollectProcess(std::vector<prometheus::MetricFamily>& families);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
