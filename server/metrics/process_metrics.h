// The process_ metrics of Prometheus clients: CPU time, memory, file descriptors, start time.
//
// Reads /proc at each scrape. Leaves out what it cannot read. Stateless, and so thread-safe.
#ifndef HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
#define HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace histogram::server {

// The part of /proc/PID/stat that is used. Times are in clock ticks. The start counts from the
// machine's boot.
struct ProcessStat {
  uint64_t user_ticks = 0, system_ticks = 0, start_ticks = 0;
  uint64_t virtual_bytes = 0, resident_pages = 0;
};
// The command's name in `text` may hold any characters, also spaces and brackets.
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

class ProcessMetrics final : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(std::string proc = "/proc") : proc_(std::move(proc)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string proc_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_PROCESS_METRICS_H_
