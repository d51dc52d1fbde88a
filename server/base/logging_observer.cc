#include "server/base/logging_observer.h"

#include "server/base/logging.h"

namespace histogram::server {

std::optional<uint64_t> LogThrottle::Pass(TimeNs now) {
  events_.fetch_add(1, std::memory_order_relaxed);
  TimeNs next = next_.load(std::memory_order_relaxed);
  if (now < next || !next_.compare_exchange_strong(next, now + period_)) return std::nullopt;
  return events_.exchange(0, std::memory_order_relaxed);
}

void LoggingObserver::FellBack(std::string_view from, std::string_view to,
                               std::string_view reason) {
  if (const auto batches = fell_back_.Pass(clock_.Now())) {
    Log(LogLevel::kWarn, "batches ran on another backend",
        {{"from", from}, {"to", to}, {"reason", reason}, {"batches", *batches}});
  }
  next_.FellBack(from, to, reason);
}

void LoggingObserver::IntegrityFailure() {
  if (const auto answers = integrity_.Pass(clock_.Now())) {
    Log(LogLevel::kError, "answers held back: counts do not add up, or a recount differs",
        {{"answers", *answers}});
  }
  next_.IntegrityFailure();
}

void LoggingObserver::NoteRequest(const RequestNote& note) {
  const bool failed = !note.status.ok();
  if (const auto requests = (failed ? failed_ : slow_).Pass(clock_.Now())) {
    // A broken promise of ours is an error, what a client did wrong is news.
    const LogLevel level = note.status.code() == absl::StatusCode::kInternal ? LogLevel::kError
                           : failed                                          ? LogLevel::kInfo
                                                                             : LogLevel::kWarn;
    Log(level, failed ? "request failed" : "slow request",
        {{"method", MethodName(note.method)},
         {"code", absl::StatusCodeToString(note.status.code())},
         {"message", std::string(note.status.message())},
         {"payload_bytes", note.payload_bytes},
         {"duration_us", note.duration_ns / 1000},
         {"traceparent", note.traceparent},
         {"tenant", note.tenant},
         {"requests", *requests}});
  }
  next_.NoteRequest(note);
}

void LoggingObserver::BackendDown(std::string_view backend, std::string_view reason) {
  Log(LogLevel::kError, "backend is down until the process is restarted",
      {{"backend", backend}, {"reason", reason}});
  next_.BackendDown(backend, reason);
}

}  // namespace histogram::server
