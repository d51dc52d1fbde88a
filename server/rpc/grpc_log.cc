#include "server/rpc/grpc_log.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/grpc_internals.h"

#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
#include <grpc/support/log.h>
#endif

namespace histogram::server {

#if HISTOGRAM_GRPC_HAS_LOG_FUNCTION
namespace {

// Never destroyed: gRPC may log until the process ends.
GrpcLogSink* redirected = nullptr;

void Redirect(gpr_log_func_args* line) {
  try {
    const absl::string_view file = line->file;
    const GrpcLogSeverity severity =
        line->severity == GPR_LOG_SEVERITY_ERROR  ? GrpcLogSeverity::kError
        : line->severity == GPR_LOG_SEVERITY_INFO ? GrpcLogSeverity::kInfo
                                                  : GrpcLogSeverity::kDebug;
    (*redirected)(severity, line->message,
                  absl::StrCat(file.substr(file.rfind('/') + 1), ":", line->line));
  } catch (const std::exception&) {
    // Out of memory while logging: the line is lost. No exception may pass through gRPC.
  }
}

}  // namespace

void RedirectGrpcLog(GrpcLogSink sink) {
  redirected = new GrpcLogSink(std::move(sink));
  gpr_set_log_function(Redirect);
}
#else
void RedirectGrpcLog(GrpcLogSink) {}
#endif

}  // namespace histogram::server
