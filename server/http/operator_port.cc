#include "server/http/operator_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/http/connection.h"

namespace histogram::server {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

class OperatorHandler final : public HttpHandler {
 public:
  explicit OperatorHandler(OperatorPortOptions options) : options_(std::move(options)) {}

  std::optional<HttpReply> Check(const HttpRequest& request, HttpIntake&) override {
    if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
    return HttpReply{.status = 405,
                     .body = "405 method not allowed; use GET\n",
                     .headers = {{"Allow", "GET, HEAD"}}};
  }

  void Answer(std::shared_ptr<HttpConnection> exchange) override {
    exchange->Reply(Route(exchange->request.path));
  }

  HttpReply Refuse(const HttpFault& fault, const HttpRequest&) override {
    if (fault.status == 400) return {.status = 400, .body = "400 Bad Request\n"};
    return {.status = fault.status, .body = absl::StrCat(fault.status, " ", fault.what, "\n")};
  }

 private:
  HttpReply Route(const std::string& path) const {
    if (path == "/metrics") return {.body = options_.metrics(), .type = kMetricsType};
    if (path == "/healthz") {
      if (options_.live()) return {.body = "ok\n"};
      return {.status = 503, .body = "not live: a receiving thread stands still\n"};
    }
    if (path == "/readyz") {
      const std::string reason = options_.not_ready();
      if (reason.empty()) return {.body = "ready\n"};
      return {.status = 503, .body = absl::StrCat("not ready: ", reason, "\n")};
    }
    return {.status = 404, .body = "404 not found; there are /metrics, /healthz and /readyz\n"};
  }

  const OperatorPortOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> StartOperatorPort(OperatorPortOptions options) {
  if (options.listen.empty()) return nullptr;
  HttpServerOptions http;
  http.listen = options.listen;
  http.flag = "--metrics-listen";
  http.thread_name = "histogram-http";
  http.timeout_ms = options.timeout_ms;
  return HttpServer::Start(std::move(http), std::make_unique<OperatorHandler>(std::move(options)));
}

}  // namespace histogram::server
