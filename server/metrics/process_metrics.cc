// Metrics of the process, as the system tells them.
#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/base/memory.h"
#include "server/metrics/server_metrics.h"

namespace histogram::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// Static data is initialised when the process starts.
const double kStartTime =
    std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// The entries of the folder, without "." and "..".
double CountFiles(DIR* folder) {
  double count = -2;
  rewinddir(folder);
  while (readdir(folder) != nullptr) ++count;
  return count;
}

void Append(std::vector<MetricFamily>& families, std::string name, std::string help,
            MetricType type, double value) {
  MetricFamily& family = families.emplace_back();
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

}  // namespace

void ServerMetrics::CollectProcess(std::vector<MetricFamily>& families) const {
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) == 0) {
    Append(families, "process_cpu_seconds_total",
           "Total user and system CPU time spent in seconds.", MetricType::Counter,
           Seconds(used.ru_utime) + Seconds(used.ru_stime));
  }
  if (const std::optional<ProcessBytes> bytes = BytesOfProcess()) {
    Append(families, "process_resident_memory_bytes", "Resident memory size in bytes.",
           MetricType::Gauge, static_cast<double>(bytes->resident));
    Append(families, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
           MetricType::Gauge, static_cast<double>(bytes->mapped));
  }
  Append(families, "process_start_time_seconds",
         "Start time of the process since unix epoch in seconds.", MetricType::Gauge, kStartTime);
  absl::MutexLock lock(&mutex_);
  if (open_files_ != nullptr) {
    Append(families, "process_open_fds", "Number of open file descriptors.", MetricType::Gauge,
           CountFiles(open_files_.get()));
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    Append(families, "process_max_fds", "Maximum number of open file descriptors.",
           MetricType::Gauge, static_cast<double>(files.rlim_cur));
  }
}

}  // namespace histogram::server
