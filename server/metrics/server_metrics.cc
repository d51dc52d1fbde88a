// Recording, and the log. server_metrics_collect.cc reads what is recorded.
#include "server/metrics/server_metrics.h"

#include <algorithm>

#include "kernels/error.h"
#include "server/base/address.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

constexpr uint64_t kMicrosecond = 1000;                            // nanoseconds
constexpr BucketLayout kStageBuckets{kMicrosecond, 1, 21};         // 1 us to 1.05 s
constexpr BucketLayout kRequestBuckets{50 * kMicrosecond, 1, 19};  // 50 us to 13.1 s
constexpr BucketLayout kByteBuckets{256, 2, 12};                   // 256 B to 1 GiB
constexpr BucketLayout kCountBuckets{1, 1, 13};                    // 1 to 4096

constexpr size_t kBadRequest = std::size(kRefusals) - 2;  // what precedes it has a reason

template <typename E>
size_t Index(E value) {
  return static_cast<size_t>(value);
}

size_t SizeClass(uint64_t payload_bytes) {
  size_t index = 0;
  while (index < kSizeClassBounds.size() && payload_bytes > kSizeClassBounds[index]) ++index;
  return index;
}

}  // namespace

BackendDescription DescribeBackend(const Backend& backend) {
  const BackendInfo& info = backend.info();
  BackendDescription description{info.name, info.device, info.uuid, info.driver, {}, {}};
  for (const KernelInfo& kernel : backend.kernels()) description.kernels.push_back(kernel.name);
  description.choices = backend.choices();
  return description;
}

ServerMetrics::ServerMetrics(const MetricsOptions& options, const Clock& clock)
    : options_(options), clock_(clock), open_files_(opendir("/proc/self/fd"), closedir) {
  CellPlan plan;
  for (size_t method = 0; method < kMethodCount; ++method) {
    for (Cell& cell : requests_[method]) cell = plan.Take();
    for (HistogramCells& cells : durations_[method]) cells = HistogramCells(kRequestBuckets, plan);
    streams_opened_[method] = plan.Take();
    streams_closed_[method] = plan.Take();
  }
  payload_bytes_ = HistogramCells(kByteBuckets, plan);
  batch_payloads_ = HistogramCells(kCountBuckets, plan);
  batch_bytes_ = HistogramCells(kByteBuckets, plan);
  self_probe_duration_ = HistogramCells(kRequestBuckets, plan);
  self_probes_reached_ = plan.Take();
  self_probes_missed_ = plan.Take();
  for (Cell& cell : rejected_) cell = plan.Take();
  expired_ = plan.Take();
  cancelled_ = plan.Take();
  integrity_failures_ = plan.Take();

  for (const BackendDescription& each : options_.backends)
    AddBackend(each, /*declared=*/true, plan);
  AddBackend({std::string(kOther), "", "", "", {}, {}}, /*declared=*/false, plan);
  fallbacks_ = plan.Take(backends_.size() * backends_.size() * kFallbackReasonNames.size());
  cells_ = std::make_unique<Cells>(plan.count());
}

void ServerMetrics::AddBackend(const BackendDescription& description, bool declared,
                               CellPlan& plan) {
  BackendCells& backend = backends_.emplace_back();
  backend.name = description.name;
  backend.declared = declared;
  for (HistogramCells& stage : backend.stages) stage = HistogramCells(kStageBuckets, plan);
  for (Cell& cell : backend.batches) cell = plan.Take();
  for (const std::string& name : description.kernels) {
    const bool shown =
        std::any_of(description.choices.begin(), description.choices.end(),
                    [&name](const KernelChoice& choice) { return choice.kernel == name; });
    backend.kernels.push_back({name, shown, HistogramCells(kStageBuckets, plan)});
  }
  backend.kernels.push_back({std::string(kOther), false, HistogramCells(kStageBuckets, plan)});
}

size_t ServerMetrics::BackendIndex(std::string_view name) const {
  size_t index = 0;
  const size_t other = backends_.size() - 1;
  while (index < other && backends_[index].name != name) ++index;
  return index;
}

void ServerMetrics::RequestFinished(const RequestNote& request) {
  const auto& [method, status, payload_bytes, duration_ns, traceparent, tenant, peer] = request;
  const bool failed = !status.ok();
  if (failed) Refused(status);  // whoever sees the request counted finds why it was refused
  const size_t m = Index(method);
  Cells::Shard& shard = cells_->Local();
  shard.Add(requests_[m][Index(status.code())], 1);
  durations_[m][SizeClass(payload_bytes)].Observe(shard, duration_ns);
  payload_bytes_.Observe(shard, payload_bytes);
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "request",
        {{"method", MethodName(method)},
         {"code", absl::StatusCodeToString(status.code())},
         {"payload_bytes", payload_bytes},
         {"duration_us", duration_ns / 1000}});
  }
  const uint64_t slow_us = options_.config.transport.slow_request_us;
  const bool slow = slow_us != 0 && duration_ns >= slow_us * 1000;
  if (!failed && !slow) return;
  // A fault of the server is an error; a mistake of a client is information.
  const LogLevel level = absl::IsInternal(status) ? LogLevel::kError
                         : failed                 ? LogLevel::kInfo
                                                  : LogLevel::kWarn;
  LogThrottled(failed ? failed_ : slow_, clock_.Now(), level,
               failed ? "request failed" : "slow request",
               {{"method", MethodName(method)},
                {"code", absl::StatusCodeToString(status.code())},
                {"message", std::string(status.message())},
                {"payload_bytes", payload_bytes},
                {"duration_us", duration_ns / 1000},
                {"peer", PeerAddress({peer.data(), peer.size()})},
                {"tenant", tenant},
                {"traceparent", traceparent}});
}

void ServerMetrics::Refused(const absl::Status& status) {
  const std::string reason = GetErrorDetail(status).reason;
  for (size_t r = 0; r < kBadRequest; ++r) {
    if (reason == kRefusals[r].reason) return cells_->Add(rejected_[r], 1);
  }
  if (absl::IsInvalidArgument(status)) cells_->Add(rejected_[kBadRequest], 1);
}

void ServerMetrics::StreamOpened(Method method) { cells_->Add(streams_opened_[Index(method)], 1); }

void ServerMetrics::StreamClosed(Method method) { cells_->Add(streams_closed_[Index(method)], 1); }

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
  const BackendCells& backend = backends_[BackendIndex(report.backend)];
  size_t kernel = 0;
  const size_t other = backend.kernels.size() - 1;
  while (kernel < other && backend.kernels[kernel].name != report.kernel) ++kernel;

  Cells::Shard& shard = cells_->Local();
  shard.Add(backend.batches[Index(closed_by)], 1);
  batch_payloads_.Observe(shard, report.payloads);
  batch_bytes_.Observe(shard, bytes);
  const auto observe = [&](Stage stage, uint64_t duration_ns) {
    backend.stages[Index(stage)].Observe(shard, duration_ns);
  };
  // A stage that this backend does not have is not one that took no time.
  if (report.gather_ns != 0) observe(Stage::kGather, report.gather_ns);
  if (report.transfer_ns != 0) observe(Stage::kTransfer, report.transfer_ns);
  observe(Stage::kKernel, report.kernel_ns);
  backend.kernels[kernel].duration.Observe(shard, report.kernel_ns);
}

void ServerMetrics::StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) {
  backends_[BackendIndex(backend)].stages[Index(stage)].Observe(cells_->Local(), duration_ns);
}

void ServerMetrics::EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) {
  LogThrottled(ended_receiving_, clock_.Now(), LogLevel::kWarn,
               "ended calls whose messages are not finished: memory is short",
               {{"calls", calls}, {"held_bytes", held_bytes}, {"peer", peer}});
  cells_->Add(rejected_.back(), calls);
}

void ServerMetrics::Expired() { cells_->Add(expired_, 1); }

void ServerMetrics::Cancelled() { cells_->Add(cancelled_, 1); }

void ServerMetrics::FellBack(std::string_view from, std::string_view to, std::string_view reason) {
  LogThrottled(fell_back_, clock_.Now(), LogLevel::kWarn, "a batch ran on another backend",
               {{"from", from}, {"to", to}, {"reason", reason}});
  const auto known =
      std::find(kFallbackReasonNames.begin(), kFallbackReasonNames.end() - 1, reason);
  const auto r = static_cast<size_t>(known - kFallbackReasonNames.begin());
  const size_t pair = BackendIndex(from) * backends_.size() + BackendIndex(to);
  cells_->Add(fallbacks_ + static_cast<Cell>(pair * kFallbackReasonNames.size() + r), 1);
}

void ServerMetrics::IntegrityFailure() {
  LogThrottled(integrity_, clock_.Now(), LogLevel::kError,
               "an answer was held back: its counts do not add up, or a recount differs", {});
  cells_->Add(integrity_failures_, 1);
}

void ServerMetrics::BackendDown(std::string_view backend, std::string_view reason) {
  Log(LogLevel::kError, "backend is down until the process is restarted",
      {{"backend", backend}, {"reason", reason}});  // the snapshot tells the metrics
}

void ServerMetrics::SelfProbed(bool answered, uint64_t duration_ns) {
  Cells::Shard& shard = cells_->Local();
  shard.Add(answered ? self_probes_reached_ : self_probes_missed_, 1);
  self_probe_duration_.Observe(shard, duration_ns);
}

void ServerMetrics::TenantBytes(std::string_view tenant, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  auto it = tenant_bytes_.find(tenant);
  if (it == tenant_bytes_.end()) {
    if (tenant_bytes_.size() >= kTenantsMax) tenant = kOther;
    it = tenant_bytes_.emplace(std::string(tenant), 0).first;
  }
  it->second += bytes;
}

void ServerMetrics::SetCertificateExpiry(const std::string& file, int64_t seconds) {
  absl::MutexLock lock(&mutex_);
  certificate_expiry_[file] = seconds;
}

void ServerMetrics::SetReloadFailing(const std::string& files, bool failing) {
  absl::MutexLock lock(&mutex_);
  reload_failing_[files] = failing;
}

}  // namespace histogram::server
