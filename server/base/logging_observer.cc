#include "server/base/logging_observer.h"

namespace histogram::server {

std::optional<uint64_t> LogThrottle::Pass(TimeNs now) {
  TimeNs next = next_.load(std::memory_order_relaxed);
  if (now < next || !next_.compare_exchange_strong(next, now + period_)) {
    held_back_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return held_back_.exchange(0, std::memory_order_relaxed);
}

void LogThrottled(LogThrottle& throttle, TimeNs now, LogLevel level, std::string_view event,
                  std::vector<LogField> fields) {
  const std::optional<uint64_t> suppressed = throttle.Pass(now);
  if (!suppressed) return;
  if (*suppressed > 0) fields.emplace_back("suppressed", *suppressed);
  Log(level, event, fields);
}

void LoggingObserver::RequestFinished(Method method, absl::StatusCode code, uint64_t payload_bytes,
                                      uint64_t duration_ns) {
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "request",
        {{"method", MethodName(method)},
         {"code", absl::StatusCodeToString(code)},
         {"payload_bytes", payload_bytes},
         {"duration_us", duration_ns / 1000}});
  }
  next_.RequestFinished(method, code, payload_bytes, duration_ns);
}

void LoggingObserver::BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) {
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "batch",
        {{"backend", report.backend},
         {"kernel", report.kernel},
         {"payloads", report.payloads},
         {"bytes", bytes},
         {"closed_by", kClosedByNames[static_cast<size_t>(closed_by)]},
         {"kernel_us", report.kernel_ns / 1000}});
  }
  next_.BatchFinished(report, bytes, closed_by);
}

void LoggingObserver::FellBack(std::string_view from, std::string_view to,
                               std::string_view reason) {
  LogThrottled(fell_back_, clock_.Now(), LogLevel::kWarn, "a batch ran on another backend",
               {{"from", from}, {"to", to}, {"reason", reason}});
  next_.FellBack(from, to, reason);
}

void LoggingObserver::IntegrityFailure() {
  LogThrottled(integrity_, clock_.Now(), LogLevel::kError,
               "an answer was held back: its counts do not add up, or a recount differs", {});
  next_.IntegrityFailure();
}

void LoggingObserver::NoteRequest(const RequestNote& note) {
  const bool failed = !note.status.ok();
  // A fault of the server is an error; a mistake of a client is information.
  const LogLevel level = note.status.code() == absl::StatusCode::kInternal ? LogLevel::kError
                         : failed                                          ? LogLevel::kInfo
                                                                           : LogLevel::kWarn;
  LogThrottled(failed ? failed_ : slow_, clock_.Now(), level,
               failed ? "request failed" : "slow request",
               {{"method", MethodName(note.method)},
                {"code", absl::StatusCodeToString(note.status.code())},
                {"message", std::string(note.status.message())},
                {"payload_bytes", note.payload_bytes},
                {"duration_us", note.duration_ns / 1000},
                {"peer", note.peer},
                {"tenant", note.tenant},
                {"traceparent", note.traceparent}});
  next_.NoteRequest(note);
}

void LoggingObserver::EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) {
  LogThrottled(ended_receiving_, clock_.Now(), LogLevel::kWarn,
               "ended calls whose messages are not finished: memory is short",
               {{"calls", calls}, {"held_bytes", held_bytes}, {"peer", peer}});
  next_.EndedReceiving(calls, held_bytes, peer);
}

void LoggingObserver::BackendDown(std::string_view backend, std::string_view reason) {
  Log(LogLevel::kError, "backend is down until the process is restarted",
      {{"backend", backend}, {"reason", reason}});
  next_.BackendDown(backend, reason);
}

}  // namespace histogram::server
