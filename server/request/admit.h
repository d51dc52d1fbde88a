// The steps of every payload from a received message to the batcher. They are the same for all
// calls. No gRPC here.
#ifndef HISTOGRAM_SERVER_REQUEST_ADMIT_H_
#define HISTOGRAM_SERVER_REQUEST_ADMIT_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/job.h"
#include "server/request/codec.h"
#include "server/request/query.h"

namespace histogram::server {

struct AdmissionLimits {
  uint64_t payload_bytes_max = 0;
  QueryLimits query;
};

// Takes `bytes` from the caller's quota, or fails.
using Charge = absl::FunctionRef<absl::Status(uint64_t bytes)>;

// Parses a message in place, checks its payload against the limits, makes its query and charges its
// caller. Keeps a query that is already set: an Accumulate reads the spec of its first message
// only. `parsed` points into `message`. Fails with RESOURCE_EXHAUSTED (PAYLOAD_TOO_LARGE), with
// INVALID_ARGUMENT where the query does not go with the payload or the method, or as ParseRequest,
// MakeQuery and `charge` do. Charges nothing if it fails. REQUIRES: the method's messages have a
// payload.
absl::Status Admit(Method method, absl::Span<const Fragment> message, const AdmissionLimits& limits,
                   Charge charge, ParsedRequest& parsed, std::shared_ptr<const Query>& query);
// The same of what is parsed: spec, payload and payload_bytes are set.
absl::Status AdmitParsed(Method method, const AdmissionLimits& limits, Charge charge,
                         ParsedRequest& parsed, std::shared_ptr<const Query>& query);

// Points `job` at the payload of an admitted message. `owner` owns the message's bytes. `adds_up`:
// the payload is a part of a longer one.
void FillJob(const ParsedRequest& parsed, std::shared_ptr<const void> owner,
             const std::shared_ptr<const Query>& query, TimeNs deadline, Job& job,
             bool adds_up = false);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ADMIT_H_
