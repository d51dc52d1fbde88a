// What is recorded, with the texts that explain it, and the log. server_metrics_collect.cc reads
// it.
#include "server/metrics/server_metrics.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/error.h"
#include "server/base/address.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

using prometheus::MetricType;

constexpr uint64_t kMicrosecond = 1000;                            // nanoseconds
constexpr BucketLayout kStageBuckets{kMicrosecond, 1, 21};         // 1 us to 1.05 s
constexpr BucketLayout kRequestBuckets{50 * kMicrosecond, 1, 19};  // 50 us to 13.1 s
constexpr BucketLayout kByteBuckets{256, 2, 12};                   // 256 B to 1 GiB
constexpr BucketLayout kCountBuckets{1, 1, 13};                    // 1 to 4096

// The values of labels, indexed by the enum that they name. kOther stands for all undeclared
// values: it bounds the number of series.
constexpr std::string_view kOther = "other";

// Refusals, and the reasons of their errors.
struct Refusal {
  std::string_view name, reason;
};
constexpr Refusal kRefusals[] = {
    {"queue_full", "QUEUE_FULL"},
    {"payload_too_large", "PAYLOAD_TOO_LARGE"},
    {"too_many_bins", "TOO_MANY_BINS"},
    {"draining", "DRAINING"},
    {"compressed", "COMPRESSED_MESSAGE"},
    {"quota", "QUOTA_EXCEEDED"},
    {"unauthenticated", "UNAUTHENTICATED"},
    {"headers_too_large", "HEADERS_TOO_LARGE"},
    {"bad_request", ""},      // any other INVALID_ARGUMENT
    {"receive_memory", ""}};  // ended while a message was received, by the call guard
constexpr Cell kReceiveMemory = std::size(kRefusals) - 1;
constexpr Cell kBadRequest = kReceiveMemory - 1;  // those before it have reasons
constexpr std::array<std::string_view, kStageCount> kStageNames = {"queue",  "gather", "transfer",
                                                                   "kernel", "fold",   "reply"};
// The last one stands for every other reason.
constexpr std::array<std::string_view, 5> kFallbackReasonNames = {"device_lost", "watchdog",
                                                                  "out_of_memory", "error", kOther};
constexpr Cell kCodeCount = 17;  // of gRPC's status codes
// Whether a code, one that the API documents, is shown before it has occurred.
constexpr bool IsExpectedCode(Cell code) {
  return code == 0 || code == 1 || code == 3 || code == 4 || code == 8 || code == 13 || code == 14;
}

// A payload's size class is the first whose bound is >= its bytes. The last class has no bound.
constexpr std::array<uint64_t, 4> kSizeClassBounds = {uint64_t{4} << 10, uint64_t{64} << 10,
                                                      uint64_t{1} << 20, uint64_t{16} << 20};
constexpr std::array<std::string_view, 5> kSizeClassNames = {"le_4KiB", "le_64KiB", "le_1MiB",
                                                             "le_16MiB", "gt_16MiB"};

constexpr double kSeconds = 1e9;  // recorded in nanoseconds

template <typename E>
Cell Index(E value) {
  return static_cast<Cell>(value);
}

size_t SizeClass(uint64_t payload_bytes) {
  size_t index = 0;
  while (index < kSizeClassBounds.size() && payload_bytes > kSizeClassBounds[index]) ++index;
  return index;
}

}  // namespace

ServerMetrics::ServerMetrics(const MetricsOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      backends_(options.backends),
      open_files_(opendir("/proc/self/fd"), closedir) {
  backends_.emplace_back().info.name = kOther;
  for (auto& backend : backends_) backend.kernels.emplace_back().name = kOther;
  DeclareRequests();
  DeclareBatches();
  DeclareEvents();
  cells_ = std::make_unique<Cells>(cell_count_);
}

HistogramCells ServerMetrics::Declare(const std::string& name, const char* help,
                                      const BucketLayout& buckets, double per_unit) {
  const HistogramCells cells{buckets, cell_count_};
  const MetricType type = buckets.bound_count == 0 ? MetricType::Counter : MetricType::Histogram;
  families_.push_back({{"histsvc_" + name, help, type, {}}, cells, per_unit, {}});
  return cells;
}

void ServerMetrics::AddSeries(Labels labels, bool always) {
  Family& family = families_.back();
  auto& metric = family.shape.metric.emplace_back();
  for (const auto& [name, value] : labels) metric.label.push_back({name, std::string(value)});
  family.always.push_back(always);
  cell_count_ += family.shape.type == MetricType::Counter ? 1 : family.cells.width();
}

void ServerMetrics::DeclareRequests() {
  requests_ = Declare("requests_total",
                      "Payloads answered, by method and status code; each item of a ComputeMany "
                      "and each Accumulate counts as one.")
                  .first;
  for (const MethodTraits& method : kMethodTraits) {
    for (Cell c = 0; c < kCodeCount; ++c) {
      const std::string code = absl::StatusCodeToString(static_cast<absl::StatusCode>(c));
      // A method without payloads has series only if someone records one.
      AddSeries({{"method", method.name}, {"code", code}},
                method.carries_payloads && IsExpectedCode(c));
    }
  }
  request_durations_ = Declare(
      "request_duration_seconds",
      "Time from a payload's arrival, of an Accumulate from that of its last message, to its "
      "answer, by method and size of the payload. What a caller takes to send or to read is not in "
      "it.",
      kRequestBuckets, kSeconds);
  for (const MethodTraits& method : kMethodTraits) {
    for (const std::string_view size_class : kSizeClassNames) {
      AddSeries({{"method", method.name}, {"size_class", size_class}}, method.carries_payloads);
    }
  }
  payload_bytes_ =
      Declare("payload_bytes", "Sizes of the payloads that were answered.", kByteBuckets);
  AddSeries({});
  streams_opened_ = Declare("streams_total", "Streams that were opened.").first;
  for (const MethodTraits& method : kMethodTraits) {
    AddSeries({{"method", method.name}}, method.is_stream);
  }
  streams_closed_ = cell_count_;
  cell_count_ += kMethodCount;
}

void ServerMetrics::DeclareBatches() {
  const size_t declared = options_.backends.size();
  batches_ =
      Declare("batches_total", "Batches executed, by backend and by what closed them.").first;
  for (size_t b = 0; b < backends_.size(); ++b) {
    for (const std::string_view closed_by : kClosedByNames) {
      AddSeries({{"backend", backends_[b].info.name}, {"closed_by", closed_by}}, b < declared);
    }
  }
  batch_payloads_ = Declare("batch_payloads", "Payloads of a batch.", kCountBuckets);
  AddSeries({});
  batch_bytes_ = Declare("batch_bytes", "Payload bytes of a batch.", kByteBuckets);
  AddSeries({});
  stage_durations_ = Declare(
      "stage_duration_seconds",
      "Time spent in a stage: queue, fold and reply by payload; gather, transfer and kernel by "
      "batch.",
      kStageBuckets, kSeconds);
  for (size_t b = 0; b < backends_.size(); ++b) {
    for (const std::string_view stage : kStageNames) {
      AddSeries({{"stage", stage}, {"backend", backends_[b].info.name}}, b < declared);
    }
  }
  kernel_durations_ = Declare("kernel_duration_seconds", "Time that a kernel took for a batch.",
                              kStageBuckets, kSeconds);
  for (const auto& [info, kernels] : backends_) {
    first_kernels_.push_back(families_.back().always.size());
    for (const KernelInfo& kernel : kernels) {
      AddSeries({{"kernel", kernel.name}, {"backend", info.name}}, /*always=*/false);
    }
  }
}

void ServerMetrics::DeclareEvents() {
  const auto one = [this](const char* name, const char* help) {
    const Cell cell = Declare(name, help).first;
    AddSeries({});
    return cell;
  };
  rejected_ =
      Declare("rejected_total", "Payloads, calls and streams that were refused, by reason.").first;
  for (const Refusal& refusal : kRefusals) AddSeries({{"reason", refusal.name}});
  expired_ = one("expired_total", "Payloads dropped uncounted because their deadline had passed.");
  cancelled_ = one("cancelled_total", "Payloads dropped uncounted because their caller went away.");
  self_probes_ =
      Declare("self_probes_total", "Times that the server asked its own ports for an answer.")
          .first;
  for (const char* const outcome : {"missed", "reached"}) AddSeries({{"outcome", outcome}});
  self_probe_duration_ = Declare(
      "self_probe_duration_seconds",
      "Time from asking one of its own ports to its answer, or to giving up: what a new connection "
      "waits until the receiving threads turn to it.",
      kRequestBuckets, kSeconds);
  AddSeries({});
  integrity_failures_ =
      one("integrity_failures_total",
          "Answers held back because their counts did not add up or a recount differed.");
  fallbacks_ =
      Declare("fallback_total", "Batches that ran on another backend than the one chosen.").first;
  const size_t declared = options_.backends.size();
  for (size_t from = 0; from < backends_.size(); ++from) {
    for (size_t to = 0; to < backends_.size(); ++to) {
      for (const std::string_view reason : kFallbackReasonNames) {
        AddSeries({{"from", backends_[from].info.name},
                   {"to", backends_[to].info.name},
                   {"reason", reason}},
                  from != to && from < declared && to < declared);
      }
    }
  }
}

size_t ServerMetrics::BackendIndex(std::string_view name) const {
  size_t index = 0;
  const size_t other = backends_.size() - 1;
  while (index < other && backends_[index].info.name != name) ++index;
  return index;
}

void ServerMetrics::RequestFinished(const RequestNote& request) {
  const auto& [method, status, payload_bytes, duration_ns, traceparent, tenant, peer] = request;
  const bool failed = !status.ok();
  if (failed) Refused(status);  // first: a reader that sees the request counted finds why
  Cells::Shard& shard = cells_->Local();
  shard.Add(requests_ + Index(method) * kCodeCount + Index(status.code()), 1);
  request_durations_.Observe(
      shard, Index(method) * kSizeClassNames.size() + SizeClass(payload_bytes), duration_ns);
  payload_bytes_.Observe(shard, 0, payload_bytes);
  const uint64_t slow_us = options_.config.transport.slow_request_us;
  const bool slow = slow_us != 0 && duration_ns >= slow_us * 1000;
  if (!failed && !slow && !LogEnabled(LogLevel::kDebug)) return;
  const std::vector<LogField> fields = {{"method", MethodName(method)},
                                        {"code", absl::StatusCodeToString(status.code())},
                                        {"message", std::string(status.message())},
                                        {"payload_bytes", payload_bytes},
                                        {"duration_us", duration_ns / 1000},
                                        {"peer", PeerAddress({peer.data(), peer.size()})},
                                        {"tenant", tenant},
                                        {"traceparent", traceparent}};
  Log(LogLevel::kDebug, "request", fields);
  if (!failed && !slow) return;
  // A fault of the server is an error; a mistake of a client is information.
  const LogLevel level = absl::IsInternal(status) ? LogLevel::kError
                         : failed                 ? LogLevel::kInfo
                                                  : LogLevel::kWarn;
  (failed ? failed_ : slow_)
      .Log(clock_.Now(), level, failed ? "request failed" : "slow request", fields);
}

void ServerMetrics::Refused(const absl::Status& status) {
  const std::string reason = GetErrorDetail(status).reason;
  for (Cell r = 0; r < kBadRequest; ++r) {
    if (reason == kRefusals[r].reason) return cells_->Add(rejected_ + r, 1);
  }
  if (absl::IsInvalidArgument(status)) cells_->Add(rejected_ + kBadRequest, 1);
}

void ServerMetrics::StreamOpened(Method method) { cells_->Add(streams_opened_ + Index(method), 1); }

void ServerMetrics::StreamClosed(Method method) { cells_->Add(streams_closed_ + Index(method), 1); }

void ServerMetrics::BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) {
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "batch",
        {{"backend", report.backend},
         {"kernel", report.kernel},
         {"payloads", report.payloads},
         {"bytes", bytes},
         {"closed_by", kClosedByNames[Index(closed_by)]},
         {"kernel_us", report.kernel_ns / 1000}});
  }
  const size_t b = BackendIndex(report.backend);
  const std::vector<KernelInfo>& kernels = backends_[b].kernels;
  const auto kernel = std::find_if(kernels.begin(), kernels.end() - 1, [&](const KernelInfo& each) {
    return each.name == report.kernel;
  });

  Cells::Shard& shard = cells_->Local();
  shard.Add(batches_ + static_cast<Cell>(b) * kClosedByCount + Index(closed_by), 1);
  batch_payloads_.Observe(shard, 0, report.payloads);
  batch_bytes_.Observe(shard, 0, bytes);
  const auto observe = [&](Stage stage, uint64_t duration_ns) {
    stage_durations_.Observe(shard, b * kStageCount + Index(stage), duration_ns);
  };
  // A stage that this backend does not have is not one that took no time.
  if (report.gather_ns != 0) observe(Stage::kGather, report.gather_ns);
  if (report.transfer_ns != 0) observe(Stage::kTransfer, report.transfer_ns);
  observe(Stage::kKernel, report.kernel_ns);
  kernel_durations_.Observe(
      shard, first_kernels_[b] + static_cast<size_t>(kernel - kernels.begin()), report.kernel_ns);
}

void ServerMetrics::StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) {
  stage_durations_.Observe(cells_->Local(), BackendIndex(backend) * kStageCount + Index(stage),
                           duration_ns);
}

void ServerMetrics::EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) {
  ended_receiving_.Log(clock_.Now(), LogLevel::kWarn,
                       "ended calls whose messages are not finished: memory is short",
                       {{"calls", calls}, {"held_bytes", held_bytes}, {"peer", peer}});
  cells_->Add(rejected_ + kReceiveMemory, calls);
}

void ServerMetrics::FellBack(std::string_view from, std::string_view to, std::string_view reason) {
  fell_back_.Log(clock_.Now(), LogLevel::kWarn, "a batch ran on another backend",
                 {{"from", from}, {"to", to}, {"reason", reason}});
  const auto known =
      std::find(kFallbackReasonNames.begin(), kFallbackReasonNames.end() - 1, reason);
  const auto r = static_cast<size_t>(known - kFallbackReasonNames.begin());
  const size_t pair = BackendIndex(from) * backends_.size() + BackendIndex(to);
  cells_->Add(fallbacks_ + static_cast<Cell>(pair * kFallbackReasonNames.size() + r), 1);
}

void ServerMetrics::IntegrityFailure() {
  integrity_.Log(clock_.Now(), LogLevel::kError,
                 "an answer was held back: its counts do not add up, or a recount differs", {});
  cells_->Add(integrity_failures_, 1);
}

void ServerMetrics::BackendDown(std::string_view backend, std::string_view reason) {
  Log(LogLevel::kError, "backend is down until the process is restarted",
      {{"backend", backend}, {"reason", reason}});  // the snapshot tells the metrics
}

void ServerMetrics::SelfProbed(bool answered, uint64_t duration_ns) {
  Cells::Shard& shard = cells_->Local();
  shard.Add(self_probes_ + (answered ? 1 : 0), 1);
  self_probe_duration_.Observe(shard, 0, duration_ns);
}

void ServerMetrics::TenantBytes(std::string_view tenant, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  auto it = tenant_bytes_.find(tenant);
  if (it == tenant_bytes_.end()) {
    if (tenant_bytes_.size() >= kTenantsMax) tenant = kOther;
    it = tenant_bytes_.emplace(std::string(tenant), 0).first;
  }
  it->second += static_cast<double>(bytes);
}

void ServerMetrics::SetCertificateExpiry(const std::string& file, int64_t seconds) {
  absl::MutexLock lock(&mutex_);
  certificate_expiry_[file] = static_cast<double>(seconds);
}

void ServerMetrics::SetReloadFailing(const std::string& files, bool failing) {
  absl::MutexLock lock(&mutex_);
  reload_failing_[files] = failing ? 1 : 0;
}

}  // namespace histogram::server
