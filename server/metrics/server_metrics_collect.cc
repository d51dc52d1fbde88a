// Reading: what is recorded, and what is asked for at each scrape, with the texts that explain it.
#include <prometheus/text_serializer.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "server/base/logging.h"
#include "server/base/memory.h"
#include "server/config/settings.h"
#include "server/metrics/server_metrics.h"

namespace histogram::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Appends families with values that are read now to a vector.
class ServerMetrics::Writer {
 public:
  explicit Writer(std::vector<MetricFamily>& families) : families_(families) {}

  // The following values belong to this family, until the next one.
  void Family(const std::string& name, std::string help, MetricType type) {
    const bool of_process = absl::StartsWith(name, "process_");
    families_.push_back({of_process ? name : "histsvc_" + name, std::move(help), type, {}});
  }
  void Value(Labels labels, double value) {
    ClientMetric& metric = families_.back().metric.emplace_back();
    for (const auto& [name, text] : labels) metric.label.push_back({name, std::string(text)});
    const bool counter = families_.back().type == MetricType::Counter;
    (counter ? metric.counter.value : metric.gauge.value) = value;
  }
  // A family of one series without labels.
  void One(const std::string& name, std::string help, MetricType type, double value) {
    Family(name, std::move(help), type);
    Value({}, value);
  }
  void OneGauge(const std::string& name, std::string help, uint64_t value) {
    One(name, std::move(help), MetricType::Gauge, static_cast<double>(value));
  }
  // A family with a series for each value; none without values.
  void Each(const std::string& name, std::string help, MetricType type, const char* label,
            const Values& values) {
    if (!values.empty()) Family(name, std::move(help), type);
    for (const auto& [text, value] : values) Value({{label, text}}, value);
  }

 private:
  std::vector<MetricFamily>& families_;
};

namespace {

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

std::string LimitText(uint64_t limit) {
  return limit == UINT64_MAX ? "any" : std::to_string(limit);
}

}  // namespace

std::vector<MetricFamily> ServerMetrics::Collect() const {
  const ServerState state = options_.state();
  std::vector<MetricFamily> families;
  CollectRecorded(families);
  Writer writer(families);
  CollectBackends(writer, state.batcher);
  CollectPlacements(writer, state.batcher);
  CollectGauges(writer, state);
  CollectSecurity(writer);
  CollectProcess(writer);
  return families;
}

std::string ServerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

void ServerMetrics::CollectRecorded(std::vector<MetricFamily>& families) const {
  for (const Family& family : families_) {
    const auto& [shape, cells, per_unit, always] = family;
    MetricFamily& out = families.emplace_back(MetricFamily{shape.name, shape.help, shape.type, {}});
    Cell cell = cells.first;
    for (size_t series = 0; series < always.size(); ++series) {
      ClientMetric metric = shape.metric[series];
      uint64_t counted = 0;
      if (shape.type == MetricType::Counter) {
        counted = cells_->Sum(cell++);
        metric.counter.value = static_cast<double>(counted);
      } else {
        for (int i = 0; i <= cells.layout.bound_count; ++i) {
          counted += cells_->Sum(cell++);
          if (i == cells.layout.bound_count) break;  // the serializer adds +Inf itself
          metric.histogram.bucket.push_back(
              {counted, static_cast<double>(cells.layout.Bound(i)) / per_unit});
        }
        metric.histogram.sample_count = counted;
        metric.histogram.sample_sum = static_cast<double>(cells_->Sum(cell++)) / per_unit;
      }
      if (always[series] || counted != 0) out.metric.push_back(std::move(metric));
    }
  }
}

void ServerMetrics::CollectSecurity(Writer& writer) const {
  absl::MutexLock lock(&mutex_);
  writer.Each("tenant_bytes_total", "Bytes of each tenant's payloads and replies.",
              MetricType::Counter, "tenant", tenant_bytes_);
  writer.Each("certificate_expiry_timestamp_seconds",
              "When the certificate in the file expires, in seconds since 1970.", MetricType::Gauge,
              "file", certificate_expiry_);
  writer.Each("reload_failing",
              "1 while the files (certificates or tokens) cannot be used as they are and the "
              "former ones stay in force.",
              MetricType::Gauge, "files", reload_failing_);
}

void ServerMetrics::CollectBackends(Writer& writer, const Batcher::Snapshot& snapshot) const {
  writer.Family("backend_up", "1 while the backend executes batches, 0 once it is lost.",
                MetricType::Gauge);
  for (const auto& seen : snapshot.backends)
    writer.Value({{"backend", seen.name}}, seen.up ? 1 : 0);
  writer.Family("backend_info", "Always 1; the labels say what the backend is.", MetricType::Gauge);
  for (const auto& [is, kernels] : options_.backends) {
    writer.Value(
        {{"backend", is.name}, {"device", is.device}, {"uuid", is.uuid}, {"driver", is.driver}}, 1);
  }
  writer.Family("lanes", "Lanes of a backend, by state.", MetricType::Gauge);
  for (const auto& seen : snapshot.backends) {
    writer.Value({{"backend", seen.name}, {"state", "busy"}}, seen.lanes_busy);
    writer.Value({{"backend", seen.name}, {"state", "free"}}, seen.lanes - seen.lanes_busy);
  }
}

void ServerMetrics::CollectPlacements(Writer& writer, const Batcher::Snapshot& snapshot) const {
  writer.Family("placement_info",
                "Always 1; the backend that payloads up to this size go to, and why: only (there "
                "is no other), estimate (costs measured at start) or trial (what got done on "
                "each).",
                MetricType::Gauge);
  for (const Batcher::Placement& placement : snapshot.placements) {
    writer.Value({{"samples", placement.typed ? "typed" : "bytes"},
                  {"payload_bytes_max", LimitText(placement.payload_bytes_max)},
                  {"backend", placement.backend},
                  {"reason", std::string(placement.reason)}},
                 1);
  }
  writer.Family("placement_switches_total",
                "How often payloads up to this size were given to another kind of backend.",
                MetricType::Counter);
  for (const Batcher::Placement& placement : snapshot.placements) {
    writer.Value({{"samples", placement.typed ? "typed" : "bytes"},
                  {"payload_bytes_max", LimitText(placement.payload_bytes_max)}},
                 static_cast<double>(placement.switches));
  }
}

void ServerMetrics::CollectGauges(Writer& writer, const ServerState& state) const {
  const Batcher::Snapshot& batcher = state.batcher;
  writer.OneGauge("queue_payloads", "Payloads that wait for a lane.", batcher.queue_payloads);
  writer.OneGauge("queue_bytes", "Bytes of the payloads that wait for a lane.",
                  batcher.queue_bytes);
  writer.OneGauge("in_flight", "Payloads that are executing.", batcher.in_flight);
  writer.OneGauge("charged_bytes",
                  "Payload and reply bytes, queued and executing, that count against "
                  "queue_bytes_max.",
                  batcher.charged_bytes);
  writer.OneGauge("streams_paused", "Streams that wait for room in the queue.", batcher.waiting);
  writer.Family("streams_open", "Streams that are open now.", MetricType::Gauge);
  for (Cell m = 0; m < kMethodCount; ++m) {
    if (!kMethodTraits[m].is_stream) continue;
    // Read in this order a stream that comes and goes meanwhile cannot make the difference
    // negative.
    const uint64_t closed = cells_->Sum(streams_closed_ + m);
    const uint64_t opened = std::max(cells_->Sum(streams_opened_ + m), closed);
    writer.Value({{"method", kMethodTraits[m].name}}, static_cast<double>(opened - closed));
  }
  writer.OneGauge("unwritten_reply_bytes",
                  "Room taken by replies that are asked for and not yet written.",
                  state.unwritten_bytes);
  writer.One("unread_calls_total", "Calls ended because their clients did not read replies.",
             MetricType::Counter, static_cast<double>(state.unread_ended));
  writer.One("log_lines_lost_total", "Log lines that standard error did not take.",
             MetricType::Counter, static_cast<double>(LogLinesLost()));
  writer.OneGauge("ready", "1 while requests are welcome, as /readyz and health checks say.",
                  state.ready ? 1 : 0);
  writer.OneGauge("draining", "1 while the server is shutting down.", state.draining ? 1 : 0);
  writer.Family("limit",
                "The settings that are numbers, by name; the name says the unit. 0 may mean "
                "that the server chooses.",
                MetricType::Gauge);
  for (const Setting& setting : Settings()) {
    const std::optional<double> number = NumberOf(setting, options_.config);
    if (!number) continue;
    const std::string name = absl::StrReplaceAll(setting.name, {{"-", "_"}});
    const bool is_time = setting.as == ReadAs::kDuration;
    writer.Value({{"name", is_time ? name + "_seconds" : name}}, *number);
  }
  writer.Family("build_info", "Always 1; the labels say what was built.", MetricType::Gauge);
  writer.Value({{"version", options_.build.version},
                {"commit", options_.build.commit},
                {"compiler", options_.build.compiler},
                {"cuda", options_.cuda ? "true" : "false"}},
               1);
}

void ServerMetrics::CollectProcess(Writer& writer) const {
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) == 0) {
    writer.One("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
               MetricType::Counter, Seconds(used.ru_utime) + Seconds(used.ru_stime));
  }
  if (const std::optional<ProcessBytes> bytes = BytesOfProcess()) {
    writer.OneGauge("process_resident_memory_bytes", "Resident memory size in bytes.",
                    bytes->resident);
    writer.OneGauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", bytes->mapped);
  }
  writer.One("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
             MetricType::Gauge, kStartTime);
  absl::MutexLock lock(&mutex_);
  if (open_files_ != nullptr) {
    writer.One("process_open_fds", "Number of open file descriptors.", MetricType::Gauge,
               CountFiles(open_files_.get()));
  }
  if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0) {
    writer.OneGauge("process_max_fds", "Maximum number of open file descriptors.", files.rlim_cur);
  }
}

}  // namespace histogram::server
