// Reading: the metric families, with the texts that explain them.
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "server/base/logging.h"
#include "server/config/settings.h"
#include "server/metrics/server_metrics.h"

namespace histogram::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Appends families and their series to a vector.
class ServerMetrics::Writer {
 public:
  using Labels = std::initializer_list<std::pair<const char*, std::string_view>>;

  Writer(const Cells& cells, std::vector<MetricFamily>& families)
      : cells_(cells), families_(families) {}

  // The following samples belong to this family, until the next one.
  void Family(std::string name, std::string help, MetricType type) {
    families_.push_back({"histsvc_" + std::move(name), std::move(help), type, {}});
  }
  // `always`: the series is there before anything was counted.
  void Counter(Labels labels, Cell cell, bool always = true) {
    if (always || cells_.Sum(cell) != 0) Add(labels).counter.value = Read(cell);
  }
  void CounterValue(Labels labels, uint64_t value) {
    Add(labels).counter.value = static_cast<double>(value);
  }
  void Gauge(Labels labels, double value) { Add(labels).gauge.value = value; }
  // `per_unit`: how many recorded units make one of the metric's.
  void Histogram(Labels labels, const HistogramCells& cells, double per_unit, bool always = true) {
    if (!always && !Any(cells)) return;
    ClientMetric::Histogram& out = Add(labels).histogram;
    for (int i = 0; i <= cells.layout.bound_count; ++i) {
      out.sample_count += cells_.Sum(cells.first + static_cast<Cell>(i));
      if (i == cells.layout.bound_count) break;  // the serializer adds +Inf itself
      const double bound = static_cast<double>(cells.layout.Bound(i)) / per_unit;
      out.bucket.push_back({out.sample_count, bound});
    }
    out.sample_sum = Read(cells.sum_cell()) / per_unit;
  }
  // A family of one series without labels.
  void OneCounter(std::string name, std::string help, uint64_t value) {
    Family(std::move(name), std::move(help), MetricType::Counter);
    CounterValue({}, value);
  }
  void OneGauge(std::string name, std::string help, uint64_t value) {
    Family(std::move(name), std::move(help), MetricType::Gauge);
    Gauge({}, static_cast<double>(value));
  }
  double Read(Cell cell) const { return static_cast<double>(cells_.Sum(cell)); }

 private:
  bool Any(const HistogramCells& cells) const {
    for (int i = 0; i <= cells.layout.bound_count; ++i) {
      if (cells_.Sum(cells.first + static_cast<Cell>(i)) != 0) return true;
    }
    return false;
  }
  ClientMetric& Add(Labels labels) {
    ClientMetric& metric = families_.back().metric.emplace_back();
    for (const auto& [name, value] : labels) metric.label.push_back({name, std::string(value)});
    return metric;
  }

  const Cells& cells_;
  std::vector<MetricFamily>& families_;
};

namespace {

constexpr double kSeconds = 1e9;  // recorded in nanoseconds
constexpr double kAsIs = 1;

// `none` stands for no limit.
std::string LimitText(uint64_t limit, uint64_t none) {
  return limit == none ? "any" : std::to_string(limit);
}

}  // namespace

std::vector<MetricFamily> ServerMetrics::Collect() const {
  const Batcher::Snapshot snapshot = snapshot_source_ ? snapshot_source_() : Batcher::Snapshot();
  std::vector<MetricFamily> families;
  Writer writer(*cells_, families);
  CollectRequests(writer);
  CollectBatches(writer);
  CollectEvents(writer);
  CollectBackends(writer, snapshot);
  CollectDispatch(writer, snapshot);
  CollectGauges(writer, snapshot);
  CollectSecurity(writer);
  CollectProcess(families);
  return families;
}

std::string ServerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

void ServerMetrics::CollectSecurity(Writer& writer) const {
  absl::MutexLock lock(&mutex_);
  if (!tenant_bytes_.empty()) {
    writer.Family("tenant_bytes_total", "Bytes of each tenant's payloads and replies.",
                  MetricType::Counter);
    for (const auto& [tenant, bytes] : tenant_bytes_) {
      writer.CounterValue({{"tenant", tenant}}, bytes);
    }
  }
  if (!certificate_expiry_.empty()) {
    writer.Family("certificate_expiry_timestamp_seconds",
                  "When the certificate in the file expires, in seconds since 1970.",
                  MetricType::Gauge);
    for (const auto& [file, seconds] : certificate_expiry_) {
      writer.Gauge({{"file", file}}, static_cast<double>(seconds));
    }
  }
  if (!reload_failing_.empty()) {
    writer.Family("reload_failing",
                  "1 while the files (certificates or tokens) cannot be used as they are and the "
                  "former ones stay in force.",
                  MetricType::Gauge);
    for (const auto& [files, failing] : reload_failing_) {
      writer.Gauge({{"files", files}}, failing ? 1 : 0);
    }
  }
}

void ServerMetrics::CollectRequests(Writer& writer) const {
  writer.Family("requests_total",
                "Payloads answered, by method and status code; each item of a ComputeMany and each "
                "Accumulate counts as one.",
                MetricType::Counter);
  for (size_t m = 0; m < kMethodCount; ++m) {
    for (size_t c = 0; c < kCodeCount; ++c) {
      const std::string code = absl::StatusCodeToString(static_cast<absl::StatusCode>(c));
      // A method without payloads has series only if someone records one.
      writer.Counter({{"method", kMethodTraits[m].name}, {"code", code}}, requests_[m][c],
                     kMethodTraits[m].carries_payloads && IsExpectedCode(c));
    }
  }
  writer.Family("request_duration_seconds",
                "Time from a payload's arrival, of an Accumulate from that of its last message, to "
                "its answer, by method and size of the payload. What a caller takes to send or to "
                "read is not in it.",
                MetricType::Histogram);
  for (size_t m = 0; m < kMethodCount; ++m) {
    for (size_t s = 0; s < kSizeClassNames.size(); ++s) {
      writer.Histogram({{"method", kMethodTraits[m].name}, {"size_class", kSizeClassNames[s]}},
                       durations_[m][s], kSeconds, kMethodTraits[m].carries_payloads);
    }
  }
  writer.Family("payload_bytes", "Sizes of the payloads that were answered.",
                MetricType::Histogram);
  writer.Histogram({}, payload_bytes_, kAsIs);
  writer.Family("streams_total", "Streams that were opened.", MetricType::Counter);
  for (size_t m = 0; m < kMethodCount; ++m) {
    if (!kMethodTraits[m].is_stream) continue;
    writer.Counter({{"method", kMethodTraits[m].name}}, streams_opened_[m]);
  }
  writer.Family("streams_open", "Streams that are open now.", MetricType::Gauge);
  for (size_t m = 0; m < kMethodCount; ++m) {
    if (!kMethodTraits[m].is_stream) continue;
    // Read in this order a stream that comes and goes meanwhile cannot make the difference
    // negative.
    const double closed = writer.Read(streams_closed_[m]);
    writer.Gauge({{"method", kMethodTraits[m].name}},
                 std::max(0.0, writer.Read(streams_opened_[m]) - closed));
  }
}

void ServerMetrics::CollectBatches(Writer& writer) const {
  writer.Family("batches_total", "Batches executed, by backend and by what closed them.",
                MetricType::Counter);
  for (const BackendCells& backend : backends_) {
    for (size_t c = 0; c < kClosedByCount; ++c) {
      writer.Counter({{"backend", backend.name}, {"closed_by", kClosedByNames[c]}},
                     backend.batches[c], backend.declared);
    }
  }
  writer.Family("batch_payloads", "Payloads of a batch.", MetricType::Histogram);
  writer.Histogram({}, batch_payloads_, kAsIs);
  writer.Family("batch_bytes", "Payload bytes of a batch.", MetricType::Histogram);
  writer.Histogram({}, batch_bytes_, kAsIs);
  writer.Family("stage_duration_seconds",
                "Time spent in a stage: queue, fold and reply by payload; gather, transfer and "
                "kernel by batch.",
                MetricType::Histogram);
  for (const BackendCells& backend : backends_) {
    for (size_t s = 0; s < kStageCount; ++s) {
      writer.Histogram({{"stage", kStageNames[s]}, {"backend", backend.name}}, backend.stages[s],
                       kSeconds, backend.declared);
    }
  }
  writer.Family("kernel_duration_seconds", "Time that a kernel took for a batch.",
                MetricType::Histogram);
  for (const BackendCells& backend : backends_) {
    for (const KernelCells& kernel : backend.kernels) {
      writer.Histogram({{"kernel", kernel.name}, {"backend", backend.name}}, kernel.duration,
                       kSeconds, kernel.shown);
    }
  }
}

void ServerMetrics::CollectEvents(Writer& writer) const {
  writer.Family("rejected_total", "Payloads, calls and streams that were refused, by reason.",
                MetricType::Counter);
  for (size_t r = 0; r < rejected_.size(); ++r) {
    writer.Counter({{"reason", kRefusals[r].name}}, rejected_[r]);
  }
  writer.OneCounter("expired_total",
                    "Payloads dropped uncounted because their deadline had passed.",
                    cells_->Sum(expired_));
  writer.OneCounter("cancelled_total", "Payloads dropped uncounted because their caller went away.",
                    cells_->Sum(cancelled_));
  writer.OneCounter("unread_calls_total", "Calls ended because their clients did not read replies.",
                    unread_ended_);
  writer.Family("self_probes_total", "Times that the server asked its own ports for an answer.",
                MetricType::Counter);
  writer.Counter({{"outcome", "reached"}}, self_probes_reached_);
  writer.Counter({{"outcome", "missed"}}, self_probes_missed_);
  writer.Family("self_probe_duration_seconds",
                "Time from asking one of its own ports to its answer, or to giving up: what a new "
                "connection waits until the receiving threads turn to it.",
                MetricType::Histogram);
  writer.Histogram({}, self_probe_duration_, kSeconds);
  writer.OneCounter("log_lines_lost_total", "Log lines that standard error did not take.",
                    LogLinesLost());
  writer.OneCounter("integrity_failures_total",
                    "Answers held back because their counts did not add up or a recount differed.",
                    cells_->Sum(integrity_failures_));
  writer.Family("fallback_total", "Batches that ran on another backend than the one chosen.",
                MetricType::Counter);
  for (size_t from = 0; from < backends_.size(); ++from) {
    for (size_t to = 0; to < backends_.size(); ++to) {
      for (size_t r = 0; r < kFallbackReasonNames.size(); ++r) {
        const size_t pair = from * backends_.size() + to;
        const Cell cell = fallbacks_ + static_cast<Cell>(pair * kFallbackReasonNames.size() + r);
        writer.Counter({{"from", backends_[from].name},
                        {"to", backends_[to].name},
                        {"reason", kFallbackReasonNames[r]}},
                       cell, from != to && backends_[from].declared && backends_[to].declared);
      }
    }
  }
}

void ServerMetrics::CollectBackends(Writer& writer, const Batcher::Snapshot& snapshot) const {
  const auto find = [&](const std::string& name) -> const BackendSnapshot* {
    const auto found = std::find_if(snapshot.backends.begin(), snapshot.backends.end(),
                                    [&](const auto& backend) { return backend.name == name; });
    return found == snapshot.backends.end() ? nullptr : &*found;
  };
  writer.Family("backend_up", "1 while the backend executes batches, 0 once it is lost.",
                MetricType::Gauge);
  for (const BackendDescription& is : options_.backends) {
    const BackendSnapshot* seen = find(is.name);
    writer.Gauge({{"backend", is.name}}, seen != nullptr && !seen->up ? 0 : 1);
  }
  writer.Family("backend_info", "Always 1; the labels say what the backend is.", MetricType::Gauge);
  for (const BackendDescription& is : options_.backends) {
    writer.Gauge(
        {{"backend", is.name}, {"device", is.device}, {"uuid", is.uuid}, {"driver", is.driver}}, 1);
  }
  writer.Family("lanes", "Lanes of a backend, by state.", MetricType::Gauge);
  for (const BackendDescription& is : options_.backends) {
    const BackendSnapshot* seen = find(is.name);
    const uint32_t lanes = seen == nullptr ? 0 : seen->lanes;
    const uint32_t busy = seen == nullptr ? 0 : std::min(seen->lanes_busy, lanes);
    writer.Gauge({{"backend", is.name}, {"state", "busy"}}, busy);
    writer.Gauge({{"backend", is.name}, {"state", "free"}}, lanes - busy);
  }
}

void ServerMetrics::CollectDispatch(Writer& writer, const Batcher::Snapshot& snapshot) const {
  writer.Family(
      "dispatch_batch_seconds",
      "The dispatch table: the kernel for batches up to these limits, and what one cost when "
      "it was measured; 0 where none was. Without tuning there are no rows.",
      MetricType::Gauge);
  for (const BackendDescription& backend : options_.backends) {
    std::set<std::array<uint64_t, 4>> seen;  // of rows with the same limits the first is used
    for (const KernelChoice& choice : backend.choices) {
      if (seen.size() == kChoicesMax) break;
      const auto type = static_cast<uint64_t>(choice.sample_type);
      if (!seen.insert({type, choice.bin_count_max, choice.payload_bytes_max, choice.payloads_max})
               .second) {
        continue;
      }
      writer.Gauge({{"backend", backend.name},
                    {"kernel", choice.kernel},
                    {"sample_type", std::string(NameOf(choice.sample_type))},
                    {"bin_count_max", std::to_string(choice.bin_count_max)},
                    {"payload_bytes_max", LimitText(choice.payload_bytes_max, UINT64_MAX)},
                    {"payloads_max", LimitText(choice.payloads_max, UINT32_MAX)}},
                   static_cast<double>(choice.cost_ns) / kSeconds);
    }
  }
  writer.Family("placement_info",
                "Always 1; the backend that payloads up to this size go to, and why: only (there "
                "is no other), estimate (costs measured at start) or trial (what got done on "
                "each).",
                MetricType::Gauge);
  for (const Batcher::Placement& placement : snapshot.placements) {
    writer.Gauge({{"samples", placement.typed ? "typed" : "bytes"},
                  {"payload_bytes_max", LimitText(placement.payload_bytes_max, UINT64_MAX)},
                  {"backend", placement.backend},
                  {"reason", std::string(placement.reason)}},
                 1);
  }
  writer.Family("placement_switches_total",
                "How often payloads up to this size were given to another kind of backend.",
                MetricType::Counter);
  for (const Batcher::Placement& placement : snapshot.placements) {
    writer.CounterValue({{"samples", placement.typed ? "typed" : "bytes"},
                         {"payload_bytes_max", LimitText(placement.payload_bytes_max, UINT64_MAX)}},
                        placement.switches);
  }
}

void ServerMetrics::CollectGauges(Writer& writer, const Batcher::Snapshot& snapshot) const {
  writer.OneGauge("queue_payloads", "Payloads that wait for a lane.", snapshot.queue_payloads);
  writer.OneGauge("queue_bytes", "Bytes of the payloads that wait for a lane.",
                  snapshot.queue_bytes);
  writer.OneGauge("in_flight", "Payloads that are executing.", snapshot.in_flight);
  writer.OneGauge("charged_bytes",
                  "Payload and reply bytes, queued and executing, that count against "
                  "queue_bytes_max.",
                  snapshot.charged_bytes);
  writer.OneGauge("streams_paused", "Streams that wait for room in the queue.", snapshot.waiting);
  writer.OneGauge(
      "unwritten_reply_bytes",
      "Room taken by replies that are asked for and not yet written, looked at a few times a "
      "second.",
      unwritten_bytes_);
  writer.OneGauge("ready", "1 while requests are welcome, as /readyz and health checks say.",
                  ready_ && !draining_ ? 1 : 0);
  writer.OneGauge("draining", "1 while the server is shutting down.", draining_ ? 1 : 0);
  writer.Family("limit", "The limits in force, by name; the name says the unit.",
                MetricType::Gauge);
  for (const Setting& setting : Settings()) {
    const std::optional<double> number = NumberOf(setting, options_.config);
    if (!number) continue;
    const std::string name = absl::StrReplaceAll(setting.name, {{"-", "_"}});
    const bool is_time = setting.as == ReadAs::kDuration;
    writer.Gauge({{"name", is_time ? name + "_seconds" : name}}, *number);
  }
  writer.Family("build_info", "Always 1; the labels say what was built.", MetricType::Gauge);
  writer.Gauge({{"version", options_.build.version},
                {"commit", options_.build.commit},
                {"compiler", options_.build.compiler},
                {"cuda", options_.cuda ? "true" : "false"}},
               1);
}

}  // namespace histogram::server
