// The maker of a call: tenant, identity for fairness, and the trace that the call belongs to.
#ifndef HISTOGRAM_SERVER_SERVICE_IDENTITY_H_
#define HISTOGRAM_SERVER_SERVICE_IDENTITY_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/service/authenticator.h"
#include "server/service/service_context.h"

namespace histogram::server {

struct Caller {
  // gRPC's call, which outlives this; set by IdentifyCaller.
  const grpc::ServerContext* context = nullptr;
  std::string peer;                // its address as gRPC writes it, and forgets it when cancelled
  std::shared_ptr<Tenant> tenant;  // null where no tokens are configured
  std::string traceparent;         // W3C Trace Context, validated; empty where none was sent
};

// Reads the call's metadata and checks its token. RESOURCE_EXHAUSTED (HEADERS_TOO_LARGE) where the
// metadata is over the limit, UNAUTHENTICATED where tokens are configured and the call shows none
// that is known; the trace is set all the same.
absl::Status IdentifyCaller(const ServiceContext& service, const grpc::ServerContext& context,
                            Caller& caller);

// Checks a call's token and sets its tenant, as above. `value`: of the first of its `headers`
// "authorization".
absl::Status CheckToken(const ServiceContext& service, size_t headers, std::string_view value,
                        Caller& caller);

// Who shares the queue fairly with others: tenant, else client certificate, else connection.
uint64_t FairnessId(const ServiceContext& service, const Caller& caller);

// The same for callers with a tenant or a client certificate; 0 for all others.
uint64_t PeerId(const ServiceContext& service, const Caller& caller);

// version-traceid-parentid-flags in lower-case hex, as https://www.w3.org/TR/trace-context/ has it.
bool IsTraceparent(std::string_view value);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_IDENTITY_H_
