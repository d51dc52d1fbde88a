#include "server/rpc/grpc_log.h"

#include "server/rpc/grpc_internals.h"

#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
#include <grpc/support/log.h>

#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/base/logging_observer.h"
#endif

namespace histogram::server {

#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
namespace {

void LogLine(gpr_log_func_args* line) {
  static LogThrottle throttle{LogThrottle::kShortPeriod};
  // What gRPC calls an error concerns one connection, a failed handshake for example.
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarn
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  if (!LogEnabled(level)) return;
  try {
    const absl::string_view file = line->file;
    LogThrottled(throttle, Clock::Monotonic().Now(), level, "grpc",
                 {{"message", line->message},
                  {"source", absl::StrCat(file.substr(file.rfind('/') + 1), ":", line->line)}});
  } catch (const std::exception&) {
    // Out of memory while logging: the line is lost. No exception may pass through gRPC.
  }
}

}  // namespace

void LogGrpcLines() { gpr_set_log_function(LogLine); }
#else
void LogGrpcLines() {}
#endif

}  // namespace histogram::server
