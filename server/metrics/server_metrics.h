// The server's metrics: an Observer that counts, and what Prometheus reads. It also logs what an
// operator must see.
//
// A backend that went down is always logged; batches that ran elsewhere, answers held back and
// calls ended for memory at most once a second each; requests that failed or were slow at most a
// hundred a second each, with their caller and trace. At level debug every batch and every request
// has a line.
//
// Recording adds to sharded atomics: no lock, tens of nanoseconds, and no allocation but for what
// failed or is logged. TenantBytes takes a lock. Everything is thread-safe. Label values are
// bounded: undeclared backends and kernels count as "other". Durations come in nanoseconds and go
// out in seconds.
#ifndef HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_
#define HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_

#include <dirent.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
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

// What a scrape asks for.
struct ServerState {
  Batcher::Snapshot batcher;
  bool ready = false, draining = false;  // ready: as readiness tells balancers
  uint64_t unwritten_bytes = 0;          // of replies
  uint64_t unread_ended = 0;             // calls ended because of them, so far
};

struct MetricsOptions {
  struct OfBackend {
    BackendInfo info;
    std::vector<KernelInfo> kernels;  // all that a BatchReport may name; shown once they have run
  };
  std::vector<OfBackend> backends;
  Config config;  // its numbers are shown as limits
  BuildInfo build;
  bool cuda = false;                   // compiled in
  std::function<ServerState()> state;  // asked at each Collect
};

class ServerMetrics final : public Observer {
 public:
  // The clock is that of what is logged, and outlives this.
  explicit ServerMetrics(const MetricsOptions& options, const Clock& clock = Clock::Monotonic());

  // The expiry of the certificate in `file`, in seconds since 1970.
  void SetCertificateExpiry(const std::string& file, int64_t seconds);
  // Whether the last reload of `files` ("certificates", "tokens") failed. Then the previous ones
  // stay in force.
  void SetReloadFailing(const std::string& files, bool failing);

  void RequestFinished(const RequestNote& request) override;
  void Refused(const absl::Status& status) override;
  void StreamOpened(Method method) override;
  void StreamClosed(Method method) override;
  void BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) override;
  void StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) override;
  void EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) override;
  void Expired() override { cells_->Add(expired_, 1); }
  void Cancelled() override { cells_->Add(cancelled_, 1); }
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
  using Labels = std::initializer_list<std::pair<const char*, std::string_view>>;
  using Values = std::map<std::string, double, std::less<>>;

  // Counters or histograms that are recorded here, as a scrape shows them but for their values. The
  // cells of the series lie one behind the other.
  struct Family {
    prometheus::MetricFamily shape;
    HistogramCells cells;      // of counters the first one alone
    double per_unit;           // how many recorded units make one of the metric's
    std::vector<bool> always;  // by series: whether it is there before anything was counted
  };
  class Writer;  // builds families; server_metrics_collect.cc

  // Declares a family, of counters where there are no buckets, and returns where its cells begin.
  // AddSeries adds a series to the last one.
  HistogramCells Declare(const std::string& name, const char* help,
                         const BucketLayout& buckets = {1, 1, 0}, double per_unit = 1);
  void AddSeries(Labels labels, bool always = true);
  void DeclareRequests();
  void DeclareBatches();
  void DeclareEvents();

  size_t BackendIndex(std::string_view name) const;
  void CollectRecorded(std::vector<prometheus::MetricFamily>& families) const;
  void CollectBackends(Writer& writer, const Batcher::Snapshot& snapshot) const;
  void CollectPlacements(Writer& writer, const Batcher::Snapshot& snapshot) const;
  void CollectGauges(Writer& writer, const ServerState& state) const;
  // The process_ metrics of Prometheus clients. Asks the kernel at each call, and leaves out what
  // it does not tell.
  void CollectProcess(Writer& writer) const ABSL_LOCKS_EXCLUDED(mutex_);
  void CollectSecurity(Writer& writer) const ABSL_LOCKS_EXCLUDED(mutex_);

  const MetricsOptions options_;
  const Clock& clock_;
  LogThrottle fell_back_, integrity_, ended_receiving_;
  LogThrottle failed_{LogThrottle::kShortPeriod}, slow_{LogThrottle::kShortPeriod};

  Cell cell_count_ = 0;
  std::vector<Family> families_;
  std::vector<MetricsOptions::OfBackend> backends_;  // the last one is "other"
  std::vector<size_t> first_kernels_;                // of each backend, in kernel_durations_

  // The first cells of the families, whose series follow in the order of their labels' values.
  Cell requests_ = 0, streams_opened_ = 0, streams_closed_ = 0, batches_ = 0, rejected_ = 0;
  Cell expired_ = 0, cancelled_ = 0, self_probes_ = 0, integrity_failures_ = 0, fallbacks_ = 0;
  HistogramCells request_durations_, payload_bytes_, batch_payloads_, batch_bytes_;
  HistogramCells stage_durations_, kernel_durations_, self_probe_duration_;
  std::unique_ptr<Cells> cells_;

  mutable absl::Mutex mutex_;
  // /proc/self/fd, open from the start on: a scrape may come when descriptors have run out.
  const std::unique_ptr<DIR, int (*)(DIR*)> open_files_ ABSL_PT_GUARDED_BY(mutex_);
  // Used only with tokens or certificates, so that other servers take no lock per request.
  Values tenant_bytes_ ABSL_GUARDED_BY(mutex_);
  Values certificate_expiry_ ABSL_GUARDED_BY(mutex_);
  Values reload_failing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_SERVER_METRICS_H_
