// The service over HTTP: POST /v1/histogram, GET /v1/describe, the Connect protocol's unary calls
// (https://connectrpc.com/docs/protocol), Compute and Describe, and a page at / that posts files.
//
// A body goes the way of a gRPC message: Admit, the batcher, FinishAnswer. No TLS: a proxy ends it.
#ifndef HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_
#define HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "histogram/v1/histogram.pb.h"
#include "server/base/observer.h"
#include "server/http/http_server.h"
#include "server/service/identity.h"
#include "server/service/service_context.h"

namespace histogram::server {

// How a request is written, and so its answer.
enum class HttpForm : uint8_t {
  kPlain,  // /v1: the body is samples; JSON of the command line's schema, problem+json
  kConnectProto,
  kConnectJson,
};

// An answer, as JSON or a message, or the error with the status that its reason calls for.
HttpReply MakeReply(absl::StatusOr<std::string> answer, HttpForm form);

absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message);
absl::Status JsonToMessage(const std::string& json, google::protobuf::Message& message);

// When a call of Connect ends at the latest; kNever where it does not say.
absl::StatusOr<TimeNs> DeadlineOf(const HttpRequest& request);

extern const char kPage[];  // page.html
// The page. Browsers run the script and the style in it, and no others.
HttpReply PageReply();

// The spec of a query string, or what is wrong with it (BAD_PARAMETER).
absl::StatusOr<v1::Spec> ReadQuery(const std::string& query);

// The parameter that needs the samples more than once; null: one pass over them answers.
const char* NeedsAgain(const v1::Spec& spec);

// Counts the body of a request and replies. `caller` has passed the checks.
void ComputeOverHttp(ServiceContext& service, Caller caller, HttpForm form,
                     std::shared_ptr<HttpExchange> exchange);

class HttpPort final : private HttpHandler {
 public:
  // Listens on --http-listen. `service` outlives it.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(ServiceContext& service);

  std::string address() const { return server_->address(); }
  void Drain(TimeNs deadline) { server_->Drain(deadline); }
  void AwaitDrained() { server_->AwaitDrained(); }
  TimeNs StoodStillNs() { return server_->StoodStillNs(); }

 private:
  struct Route;

  explicit HttpPort(ServiceContext& service);
  std::optional<HttpReply> Check(const HttpRequest& request, HttpIntake& intake) override;
  void Answer(std::shared_ptr<HttpExchange> exchange) override;
  HttpReply Refuse(const HttpFault& fault, const HttpRequest& request) override;
  // Lets a page of an allowed origin read the reply.
  void Finish(const HttpRequest& request, HttpReply& reply) override;

  static const Route* FindRoute(const std::string& path);
  static HttpForm FormOf(const HttpRequest& request);
  // Against pages of other sites, and names that a stranger has pointed at this machine.
  absl::Status CheckSite(const HttpRequest& request) const;
  bool IsAllowedOrigin(const HttpRequest& request) const;
  // Sets the caller, and checks its token.
  absl::Status Identify(const HttpRequest& request, Caller& caller) const;
  absl::Status CheckCall(const HttpRequest& request, const Route& route) const;
  HttpIntake IntakeOf(const Route& route, const HttpRequest& request) const;
  HttpReply Fail(const HttpRequest& request, const absl::Status& status) const;
  absl::StatusOr<std::string> Describe(const HttpExchange& exchange) const;

  ServiceContext& service_;
  const std::vector<std::string> hosts_, origins_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_
