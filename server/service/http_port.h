// The service over HTTP: POST /v1/histogram, GET /v1/describe, the Connect protocol's unary calls
// (https://connectrpc.com/docs/protocol), Compute and Describe, and a page at / that posts files.
//
// A body goes the way of a gRPC message: Admit, the batcher, FinishAnswer. No TLS: a proxy ends it.
#ifndef HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_
#define HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "histogram/v1/histogram.pb.h"
#include "server/http/http_server.h"
#include "server/service/caller.h"
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
void ComputeOverHttp(Caller caller, HttpForm form, std::shared_ptr<HttpConnection> exchange);

// Listens on --http-listen. `service` outlives it.
absl::StatusOr<std::unique_ptr<HttpServer>> StartHttpPort(ServiceContext& service);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_HTTP_PORT_H_
