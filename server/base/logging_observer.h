// An Observer that logs what an operator must see, and passes everything on to another one.
//
// It logs a backend that went down (always), batches that ran elsewhere and answers held back (each
// at most once a second), and requests that failed or were slow (each at most a hundred a second),
// with their caller and trace. `suppressed` is the number of events of the same kind that got no
// line since the last one. At level debug every batch and every request has a line. At other
// levels the hot path costs one more call. Thread-safe.
#ifndef HISTOGRAM_SERVER_BASE_LOGGING_OBSERVER_H_
#define HISTOGRAM_SERVER_BASE_LOGGING_OBSERVER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/base/clock.h"
#include "server/base/logging.h"
#include "server/base/observer.h"

namespace histogram::server {

// Lets one event a period through and counts those that it holds back. Thread-safe, lock-free.
class LogThrottle {
 public:
  static constexpr TimeNs kPeriod = 1000000000;
  // A hundred a second: a client that only errs must not fill the disk.
  static constexpr TimeNs kShortPeriod = 10000000;
  explicit LogThrottle(TimeNs period = kPeriod) : period_(period) {}
  // The number of events that were held back since the last one that passed; absent: hold this one
  // back, too.
  std::optional<uint64_t> Pass(TimeNs now);

 private:
  const TimeNs period_;
  std::atomic<TimeNs> next_{INT64_MIN};
  std::atomic<uint64_t> held_back_{0};
};

// Logs the event if the throttle lets it through, with the field `suppressed` where others were
// held back before it.
void LogThrottled(LogThrottle& throttle, TimeNs now, LogLevel level, std::string_view event,
                  std::vector<LogField> fields);

class LoggingObserver final : public Observer {
 public:
  // `next` and the clock outlive it.
  LoggingObserver(Observer& next, const Clock& clock) : next_(next), clock_(clock) {}

  void RequestFinished(Method method, absl::StatusCode code, uint64_t payload_bytes,
                       uint64_t duration_ns) override;
  void StreamOpened(Method method) override { next_.StreamOpened(method); }
  void StreamClosed(Method method) override { next_.StreamClosed(method); }
  void BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) override;
  void StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) override {
    next_.StageFinished(stage, backend, duration_ns);
  }
  void Rejected(RejectReason reason) override { next_.Rejected(reason); }
  void EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) override;
  void Expired() override { next_.Expired(); }
  void Cancelled() override { next_.Cancelled(); }
  void FellBack(std::string_view from, std::string_view to, std::string_view reason) override;
  void IntegrityFailure() override;
  void TenantBytes(std::string_view tenant, uint64_t bytes) override {
    next_.TenantBytes(tenant, bytes);
  }
  void NoteRequest(const RequestNote& note) override;
  void BackendDown(std::string_view backend, std::string_view reason) override;
  void SelfProbed(bool answered, uint64_t duration_ns) override {
    next_.SelfProbed(answered, duration_ns);
  }

 private:
  Observer& next_;
  const Clock& clock_;
  LogThrottle fell_back_, integrity_, ended_receiving_;
  LogThrottle failed_{LogThrottle::kShortPeriod}, slow_{LogThrottle::kShortPeriod};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_LOGGING_OBSERVER_H_
