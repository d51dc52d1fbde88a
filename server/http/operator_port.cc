#include "server/http/operator_port.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace histogram::server {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kFrontPage[] = R"(<!DOCTYPE html>
<html lang="en">
<title>histogram-server</title>
<h1>histogram-server</h1>
<ul>
<li><a href="metrics">/metrics</a>: for Prometheus
<li><a href="readyz">/readyz</a>: whether it takes calls now, and if not, why
<li><a href="healthz">/healthz</a>: whether the process is alive
</ul>
</html>
)";

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorPort>> OperatorPort::Start(OperatorPortOptions options) {
  std::unique_ptr<OperatorPort> port(new OperatorPort(std::move(options)));
  if (port->options_.listen.empty()) return port;
  HttpServerOptions http;
  http.listen = port->options_.listen;
  http.flag = "--metrics-listen";
  http.thread_name = "histogram-http";
  http.timeout_ms = port->options_.timeout_ms;
  auto server = HttpServer::Start(std::move(http), *port);
  if (!server.ok()) return server.status();
  port->server_ = *std::move(server);
  return port;
}

std::optional<HttpReply> OperatorPort::Check(const HttpRequest& request, HttpIntake&) {
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  return HttpReply{.status = 405,
                   .body = "405 method not allowed; use GET\n",
                   .headers = {{"Allow", "GET, HEAD"}}};
}

void OperatorPort::Answer(std::shared_ptr<HttpExchange> exchange) {
  exchange->Reply(Route(exchange->request.path));
}

HttpReply OperatorPort::Refuse(const HttpFault& fault, const HttpRequest&) {
  if (fault.status == 400) return {.status = 400, .body = "400 Bad Request\n"};
  return {.status = fault.status, .body = absl::StrCat(fault.status, " ", fault.what, "\n")};
}

HttpReply OperatorPort::Route(const std::string& path) const {
  if (path == "/") return {.body = kFrontPage, .type = "text/html; charset=utf-8"};
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

}  // namespace histogram::server
