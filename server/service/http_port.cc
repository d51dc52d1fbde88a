#include "server/service/http_port.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "forms/json.h"
#include "kernels/error.h"
#include "server/base/address.h"
#include "server/base/observer.h"
#include "server/base/thresholds.h"
#include "server/http/connection.h"
#include "server/request/admit.h"
#include "server/request/codec.h"

namespace histogram::server {
namespace {

using Code = absl::StatusCode;

constexpr char kService[] = "/histogram.v1.HistogramService/";
constexpr size_t kConnectionsMax = 1024;
constexpr uint32_t kTimeoutMs = 10000;
constexpr uint64_t kBytesPerSecondMin = 16384;  // a body or a reply that is slower is ended
// Parsing JSON keeps the port's one thread from its other clients.
constexpr uint64_t kJsonBytesMax = uint64_t{4} << 20;
// Of a body that is counted as it arrives: what one lane counts while the next part is received.
constexpr uint64_t kPartBytesMax = uint64_t{1} << 20;
constexpr uint64_t kMessageBytesOverPayload = kSpecBytesMax + 64;
constexpr char kAllowedHeaders[] =
    "Authorization, Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms, Traceparent";

absl::Status Refusal(Code code, const char* reason, const char* field, const char* what) {
  return MakeError(code, absl::StrCat(field, ": ", what), {.reason = reason, .field = field});
}

// "a, b", in lower case.
std::vector<std::string> List(const std::string& text) {
  return absl::StrSplit(absl::AsciiStrToLower(text), absl::ByAnyChar(", \t"), absl::SkipEmpty());
}

// The media type of a Content-Type, without parameters.
std::string MediaType(const HttpRequest& request) {
  const absl::string_view type = request.Header("content-type");
  return absl::AsciiStrToLower(absl::StripAsciiWhitespace(type.substr(0, type.find(';'))));
}

// The caller, without its tenant.
Caller CallerOf(ServiceContext& service, const HttpRequest& request) {
  Caller caller(service);
  // As gRPC writes it.
  caller.peer = absl::StrCat(absl::StartsWith(request.peer, "[") ? "ipv6:" : "ipv4:", request.peer);
  const absl::string_view trace = request.Header("traceparent");
  if (IsTraceparent({trace.data(), trace.size()})) caller.traceparent = std::string(trace);
  return caller;
}

struct Route {
  const char* path;
  const char* allow;             // methods
  std::optional<Method> method;  // nothing: the page
};

const Route* FindRoute(const std::string& path) {
  static constexpr Route kRoutes[] = {
      {"/", "GET, HEAD, OPTIONS", std::nullopt},
      {"/v1/histogram", "POST, PUT, OPTIONS", Method::kCompute},
      {"/v1/describe", "GET, HEAD, OPTIONS", Method::kDescribe},
      {"/histogram.v1.HistogramService/Compute", "POST, OPTIONS", Method::kCompute},
      {"/histogram.v1.HistogramService/Describe", "POST, OPTIONS", Method::kDescribe}};
  const auto* const found =
      absl::c_find_if(kRoutes, [&](const Route& r) { return path == r.path; });
  return found == std::end(kRoutes) ? nullptr : found;
}

HttpForm FormOf(const HttpRequest& request) {
  if (!absl::StartsWith(request.path, kService)) return HttpForm::kPlain;
  return MediaType(request) == "application/proto" ? HttpForm::kConnectProto
                                                   : HttpForm::kConnectJson;
}

class HttpPort final : public HttpHandler {
 public:
  explicit HttpPort(ServiceContext& service)
      : service_(service),
        hosts_(List(service.config.http_hosts)),
        origins_(List(service.config.http_allow_origins)) {}

  std::optional<HttpReply> Check(const HttpRequest& request, HttpIntake& intake) override {
    if (absl::Status status = CheckSite(request); !status.ok()) return Fail(request, status);
    const Route* const route = FindRoute(request.path);
    if (route == nullptr) {
      const bool connect = FormOf(request) != HttpForm::kPlain;
      return Fail(request,
                  Refusal(connect ? Code::kUnimplemented : Code::kNotFound, "NOT_FOUND", "path",
                          "there are POST /v1/histogram, GET /v1/describe, a page at /, and "
                          "Connect's unary Compute and Describe; streams are gRPC's"));
    }
    if (request.method == "OPTIONS") {
      HttpReply reply = {.status = 204, .headers = {{"Allow", route->allow}}};
      if (IsAllowedOrigin(request)) {
        reply.headers.emplace_back("Access-Control-Allow-Methods", route->allow);
        reply.headers.emplace_back("Access-Control-Allow-Headers", kAllowedHeaders);
        reply.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
        reply.headers.emplace_back("Access-Control-Max-Age", "600");
      }
      return reply;
    }
    const std::vector<std::string> methods = absl::StrSplit(route->allow, ", ");
    if (!absl::c_linear_search(methods, request.method)) {
      HttpReply reply = Fail(request, InvalidField("METHOD_NOT_ALLOWED", "method",
                                                   absl::StrCat("must be ", route->allow)));
      reply.status = 405;
      reply.headers.emplace_back("Allow", route->allow);
      return reply;
    }
    if (!route->method.has_value()) return PageReply();
    const absl::Status status = CheckCall(request, *route);
    if (!status.ok()) return Fail(request, status);
    intake = IntakeOf(*route, request);
    return std::nullopt;
  }

  void Answer(std::shared_ptr<HttpConnection> exchange) override {
    const TimeNs begin = service_.clock.Now();
    const HttpForm form = FormOf(exchange->request);
    Caller caller = CallerOf(service_, exchange->request);
    absl::Status status = CheckToken(exchange->request, caller);  // the token may be gone since
    if (status.ok() && FindRoute(exchange->request.path)->method == Method::kCompute) {
      return ComputeOverHttp(std::move(caller), form, std::move(exchange));
    }
    auto answer = status.ok() ? Describe(*exchange) : status;
    caller.Report(Method::kDescribe, answer.status(), 0,
                  static_cast<uint64_t>(service_.clock.Now() - begin));
    exchange->Reply(MakeReply(std::move(answer), form));
  }

  HttpReply Refuse(const HttpFault& fault, const HttpRequest& request) override {
    const char* field = fault.field;
    std::string what = fault.limit > 0 ? absl::StrCat(fault.what, fault.limit) : fault.what;
    if (fault.status == 413 && FindRoute(request.path)->method == Method::kCompute) {
      const bool plain = FormOf(request) == HttpForm::kPlain;
      if (plain) field = NeedsAgain(*ReadQuery(request.query));  // else any length is taken
      absl::StrAppend(&what, plain ? absl::StrCat(" (--payload-bytes-max) that ", field,
                                                  " needs at once; without it any length is taken")
                                   : "; send larger ones to /v1/histogram, or through gRPC");
    }
    return Fail(request, MakeError(fault.code, what,
                                   {.reason = fault.reason, .field = field, .limit = fault.limit}));
  }

  // Lets a page of an allowed origin read the reply.
  void Finish(const HttpRequest& request, HttpReply& reply) override {
    reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
    if (!IsAllowedOrigin(request)) return;
    reply.headers.emplace_back("Access-Control-Allow-Origin",
                               std::string(request.Header("origin")));
    reply.headers.emplace_back("Access-Control-Expose-Headers", "Retry-After");
    reply.headers.emplace_back("Vary", "Origin");
  }

 private:
  bool IsAllowedOrigin(const HttpRequest& request) const {
    return request.Count("origin") == 1 &&
           absl::c_linear_search(origins_, absl::AsciiStrToLower(request.Header("origin")));
  }

  // Against pages of other sites, and names that a stranger has pointed at this machine.
  absl::Status CheckSite(const HttpRequest& request) const {
    const absl::string_view host = request.Header("host");
    if (host.empty()) {
      return InvalidField("BAD_HEADER", "Host", "the header is missing");
    }
    auto address = ParseAddress(absl::StrCat(std::string(host), ":0"));
    if (!address.ok()) address = ParseAddress(host);
    if (!address.ok() || address->is_unix) {
      return InvalidField("BAD_HEADER", "Host", "must be HOST or HOST:PORT");
    }
    if (!address->IsLocal() &&
        !absl::c_linear_search(hosts_, absl::AsciiStrToLower(address->host))) {
      return Refusal(Code::kPermissionDenied, "HOST_NOT_ALLOWED", "Host",
                     "the server does not go by this name; --http-host names those that it has "
                     "beside localhost");
    }
    if (request.Count("origin") == 0 || IsAllowedOrigin(request)) return absl::OkStatus();
    const std::string own = absl::StrCat("http://", std::string(host));
    if (request.Count("origin") == 1 && absl::EqualsIgnoreCase(request.Header("origin"), own)) {
      return absl::OkStatus();
    }
    return Refusal(Code::kPermissionDenied, "ORIGIN_NOT_ALLOWED", "Origin",
                   "pages of this site may not call the server; --http-allow-origin names "
                   "those that may");
  }

  static absl::Status CheckToken(const HttpRequest& request, Caller& caller) {
    const absl::string_view value = request.Header("authorization");
    return caller.CheckToken(request.Count("authorization"), {value.data(), value.size()});
  }

  absl::Status CheckCall(const HttpRequest& request, const Route& route) const {
    Caller caller = CallerOf(service_, request);
    if (absl::Status status = CheckToken(request, caller); !status.ok()) return status;
    const absl::string_view coding = request.Header("content-encoding");
    if (request.Count("content-encoding") > 1 ||
        (!coding.empty() && !absl::EqualsIgnoreCase(coding, "identity"))) {
      return Refusal(Code::kUnimplemented, "COMPRESSED_MESSAGE", "Content-Encoding",
                     "the server takes bodies as they are, not compressed");
    }
    const bool connect = FormOf(request) != HttpForm::kPlain;
    // Without both headers the body is empty. To Connect that is a message, here most likely a
    // mistake.
    if (!connect && route.method == Method::kCompute && !request.has_body) {
      return InvalidField("LENGTH_REQUIRED", "Content-Length", "send it, or the body in chunks");
    }
    const std::string type = MediaType(request);
    const bool known = connect ? type == "application/proto" || type == "application/json"
                               : !absl::StartsWith(type, "multipart/");
    if (!known) {
      return InvalidField("BAD_CONTENT_TYPE", "Content-Type",
                          connect ? "must be application/proto or application/json"
                                  : "the body must be the samples alone, no form");
    }
    const absl::string_view version = request.Header("connect-protocol-version");
    if (connect && !version.empty() && version != "1") {
      return InvalidField("BAD_HEADER", "Connect-Protocol-Version", "must be 1");
    }
    if (connect) return DeadlineOf(request).status();
    if (route.method == Method::kCompute) return ReadQuery(request.query).status();
    if (request.query.empty()) return absl::OkStatus();
    return InvalidField("BAD_PARAMETER", "query", "/v1/describe has no parameters");
  }

  HttpIntake IntakeOf(const Route& route, const HttpRequest& request) const {
    const HttpForm form = FormOf(request);
    const uint64_t payload = service_.config.payload_bytes_max;
    if (route.method == Method::kDescribe) return {.bytes_max = 1024};
    if (form == HttpForm::kPlain) {
      if (NeedsAgain(*ReadQuery(request.query)) != nullptr) return {.bytes_max = payload};
      return {.bytes_max = UINT64_MAX,
              .part_bytes = std::clamp<uint64_t>(payload / 8 * 8, 8, kPartBytesMax)};
    }
    const uint64_t message = payload + kMessageBytesOverPayload;
    return {.bytes_max =
                form == HttpForm::kConnectJson ? std::min(kJsonBytesMax, message) : message};
  }

  HttpReply Fail(const HttpRequest& request, const absl::Status& status) const {
    const Route* const route = FindRoute(request.path);
    if (route != nullptr && route->method.has_value()) {
      CallerOf(service_, request)
          .Report(*route->method, status, 0,
                  static_cast<uint64_t>(service_.clock.Now() - request.arrived_at));
    }
    return MakeReply(status, FormOf(request));
  }

  absl::StatusOr<std::string> Describe(const HttpConnection& exchange) const {
    const HttpForm form = FormOf(exchange.request);
    v1::DescribeRequest request;
    if (form == HttpForm::kConnectJson) {
      const absl::Status read = JsonToMessage(exchange.body->Text(), request);
      if (!read.ok()) return read;
    } else if (form == HttpForm::kConnectProto &&
               (!request.ParseFromString(exchange.body->Text()) ||
                !v1::DescribeRequest::GetReflection()->GetUnknownFields(request).empty())) {
      return Malformed("DescribeRequest");
    }
    if (form != HttpForm::kPlain && service_.clock.Now() >= *DeadlineOf(exchange.request)) {
      return absl::DeadlineExceededError("the deadline passed before the request was there");
    }
    std::string answer = service_.describe();
    if (form == HttpForm::kConnectProto) return answer;
    v1::DescribeResponse response;
    response.ParseFromString(answer);
    if (form == HttpForm::kConnectJson) return MessageToJson(response);
    return Dump(DescriptionToJson(response));
  }

  ServiceContext& service_;
  const std::vector<std::string> hosts_, origins_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> StartHttpPort(ServiceContext& service) {
  HttpServerOptions options;
  options.listen = service.config.http_listen;
  options.connections_max = kConnectionsMax;
  // The other ports keep most of what the process may open.
  if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    options.connections_max = std::clamp<size_t>(files.rlim_cur / 4, 16, kConnectionsMax);
  }
  options.keep_alive = true;
  options.timeout_ms = kTimeoutMs;
  options.bytes_per_second_min = kBytesPerSecondMin;
  options.memory = service.memory.http;
  return HttpServer::Start(std::move(options), std::make_unique<HttpPort>(service));
}

}  // namespace histogram::server
