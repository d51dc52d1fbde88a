// The server's metrics: an Observer that counts, and what Prometheus reads. It also logs what an
// operator must see.
//
// A backend that went down is always logged; batches that ran elsewhere, answers held back and
// calls ended for memory at most once a second each; requests that failed or were slow at most a
// hundred a second each, with their caller and trace. At level debug every batch and every request
// has a line.
//
// Recording adds to sharded atomics: no lock, no allocation, tens of nanoseconds. TenantBytes takes
// a lock. Everything is thread-safe. Label values are bounded: undeclared backends and kernels
// count as "other". Durations come in nanoseconds and go out in seconds.
#ifndef HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_
#define HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_

#include <dirent.h>
#include <prometheus/metric_family.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "server/base/cells.h"
#include "server/base/clock.h"
#include "server/base/logging.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"

namespace histogram::server {

// The values of labels, indexed by the enum that they name. kOther stands for all undeclared
// values: it bounds the number of series.
inline constexpr std::string_view kOther = "other";

// Refusals, and the reasons of their errors.
struct Refusal {
  std::string_view name, reason;
};
inline constexpr Refusal kRefusals[] = {
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
inline constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "queue", "gather", "transfer", "kernel", "fold", "reply"};
// The last one stands for every other reason.
inline constexpr std::array<std::string_view, 5> kFallbackReasonNames = {
    "device_lost", "watchdog", "out_of_memory", "error", kOther};
inline constexpr size_t kCodeCount = 17;  // of gRPC's status codes
// Whether a code, one that the API documents, is shown before it has occurred.
constexpr bool IsExpectedCode(size_t code) {
  return code == 0 || code == 1 || code == 3 || code == 4 || code == 8 || code == 13 || code == 14;
}

// A payload's size class is the first whose bound is >= its bytes. The last class has no bound.
inline constexpr std::array<uint64_t, 4> kSizeClassBounds = {uint64_t{4} << 10, uint64_t{64} << 10,
                                                             uint64_t{1} << 20, uint64_t{16} << 20};
inline constexpr std::array<std::string_view, 5> kSizeClassNames = {
    "le_4KiB", "le_64KiB", "le_1MiB", "le_16MiB", "gt_16MiB"};

// The facts about a backend that labels need.
struct BackendDescription {
  std::string name, device, uuid, driver;
  std::vector<std::string> kernels;   // all that a BatchReport may name
  std::vector<KernelChoice> choices;  // the dispatch table; its kernels are shown from the start
};
BackendDescription DescribeBackend(const Backend& backend);

struct MetricsOptions {
  std::vector<BackendDescription> backends;
  Config config;  // its numbers are shown as limits
  BuildInfo build;
  bool cuda = false;  // compiled in
};

class ServerMetrics final : public Observer {
 public:
  static constexpr size_t kChoicesMax = 64;  // of one backend, the first ones

  // The clock is that of what is logged, and outlives this.
  explicit ServerMetrics(const MetricsOptions& options, const Clock& clock = Clock::Monotonic());

  // Sets the source of the gauges of queue and lanes; without one they read 0. Not beside Collect.
  void SetSnapshotSource(std::function<Batcher::Snapshot()> source) {
    snapshot_source_ = std::move(source);
  }
  // The expiry of the certificate in `file`, in seconds since 1970.
  void SetCertificateExpiry(const std::string& file, int64_t seconds);
  // Whether the last reload of `files` ("certificates", "tokens") failed. Then the previous ones
  // stay in force.
  void SetReloadFailing(const std::string& files, bool failing);
  // The bytes of replies that are not yet written, and the number of calls ended because of them.
  void SetUnwrittenReplies(uint64_t bytes, uint64_t ended) {
    unwritten_bytes_.store(bytes, std::memory_order_relaxed);
    unread_ended_.store(ended, std::memory_order_relaxed);
  }
  // Whether requests are welcome, as readiness tells balancers. While draining they are not.
  void SetReady(bool ready) { ready_.store(ready, std::memory_order_relaxed); }
  void SetDraining(bool draining) { draining_.store(draining, std::memory_order_relaxed); }

  void RequestFinished(const RequestNote& request) override;
  void Refused(const absl::Status& status) override;
  void StreamOpened(Method method) override;
  void StreamClosed(Method method) override;
  void BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) override;
  void StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) override;
  void EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) override;
  void Expired() override;
  void Cancelled() override;
  void FellBack(std::string_view from, std::string_view to, std::string_view reason) override;
  void IntegrityFailure() override;
  void TenantBytes(std::string_view tenant, uint64_t bytes) override;
  void BackendDown(std::string_view backend, std::string_view reason) override;
  void SelfProbed(bool answered, uint64_t duration_ns) override;

  // All metrics, those of the process too.
  std::vector<prometheus::MetricFamily> Collect() const;
  // The same in the text exposition format (version 0.0.4).
  std::string Text() const;

 private:
  struct KernelCells {
    std::string name;
    bool shown = false;  // from the start; false: once it has run
    HistogramCells duration;
  };
  struct BackendCells {
    std::string name;
    bool declared = true;  // false: "other"
    std::array<HistogramCells, kStageCount> stages;
    std::vector<KernelCells> kernels;  // the last one is "other"
    std::array<Cell, kClosedByCount> batches{};
  };
  class Writer;  // builds the families; server_metrics_collect.cc

  size_t BackendIndex(std::string_view name) const;
  void AddBackend(const BackendDescription& description, bool declared, CellPlan& plan);
  void CollectRequests(Writer& writer) const;
  void CollectBatches(Writer& writer) const;
  void CollectEvents(Writer& writer) const;
  void CollectBackends(Writer& writer, const Batcher::Snapshot& snapshot) const;
  void CollectDispatch(Writer& writer, const Batcher::Snapshot& snapshot) const;
  void CollectGauges(Writer& writer, const Batcher::Snapshot& snapshot) const;
  void CollectSecurity(Writer& writer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The process_ metrics of Prometheus clients. Asks the kernel at each call, and leaves out what
  // it does not tell.
  void CollectProcess(std::vector<prometheus::MetricFamily>& families) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  const MetricsOptions options_;
  const Clock& clock_;
  LogThrottle fell_back_, integrity_, ended_receiving_;
  LogThrottle failed_{LogThrottle::kShortPeriod}, slow_{LogThrottle::kShortPeriod};
  std::vector<BackendCells> backends_;  // the last one is "other"

  std::array<std::array<Cell, kCodeCount>, kMethodCount> requests_{};
  std::array<std::array<HistogramCells, kSizeClassNames.size()>, kMethodCount> durations_;
  std::array<Cell, kMethodCount> streams_opened_{}, streams_closed_{};
  HistogramCells payload_bytes_, batch_payloads_, batch_bytes_, self_probe_duration_;
  Cell self_probes_reached_ = 0, self_probes_missed_ = 0;
  std::array<Cell, std::size(kRefusals)> rejected_{};
  Cell expired_ = 0, cancelled_ = 0, integrity_failures_ = 0;
  Cell fallbacks_ = 0;  // [from][to][reason]
  std::unique_ptr<Cells> cells_;

  std::atomic<bool> ready_{false}, draining_{false};
  std::atomic<uint64_t> unwritten_bytes_{0}, unread_ended_{0};
  std::function<Batcher::Snapshot()> snapshot_source_;
  mutable absl::Mutex mutex_;
  // /proc/self/fd, open from the start on: a scrape may come when descriptors have run out.
  const std::unique_ptr<DIR, int (*)(DIR*)> open_files_ ABSL_PT_GUARDED_BY(mutex_);
  // Used only with tokens or certificates, so that other servers take no lock per request.
  std::map<std::string, uint64_t, std::less<>> tenant_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t, std::less<>> certificate_expiry_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, bool, std::less<>> reload_failing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_
