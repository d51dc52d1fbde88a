// The process_ metrics of Prometheus clients: CPU time, memory, file descriptors, start time.
//
// Asks the kernel at each scrape, and leaves out what it does not tell. Stateless, and so
// thread-safe.
#ifndef HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
#define HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace histogram::server {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
