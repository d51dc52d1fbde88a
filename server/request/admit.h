// The steps that every payload takes between a received message and the batcher, and from the
// counted job to the checked answer. The same for all calls; no gRPC.
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
#include "server/request/call.h"
#include "server/request/codec.h"

namespace histogram::server {

enum class MessageKind : uint8_t { kCompute, kComputeMany, kAccumulate };

struct AdmissionLimits {
  uint64_t payload_bytes_max = 0;
  QueryLimits query;
};

// Takes this many bytes from the caller's quota, or fails.
using Charge = absl::FunctionRef<absl::Status(uint64_t bytes)>;

// Parses a message in place, checks its payload against the limits, makes its query and charges its
// caller. A query that is set already stays: an Accumulate reads only the spec of its first
// message. `parsed` points into `message`. Fails with RESOURCE_EXHAUSTED (PAYLOAD_TOO_LARGE), or as
// the parsers, MakeQuery and `charge` do; then nothing is charged.
absl::Status Admit(MessageKind kind, absl::Span<const Fragment> message,
                   const AdmissionLimits& limits, Charge charge, ParsedRequest& parsed,
                   std::shared_ptr<const Query>& query);

// Points `job` at the payload of an admitted message. `owner` keeps the message's bytes. `adds_up`:
// it is a part of a longer payload.
void FillJob(const ParsedRequest& parsed, std::shared_ptr<const void> owner,
             const std::shared_ptr<const Query>& query, TimeNs deadline, Job& job,
             bool adds_up = false);

// Recounts a counted job, if it is picked for that: INTERNAL (reason COUNT_MISMATCH) where the
// counts differ. Thread-safe.
absl::Status Recount(Verifier& verifier, const Query& query, const Job& job);

// From a counted job to the checked answer: fold, check of the sum, recount of a sample. The answer
// may point at the job's counts. `finished_at` is set where it is OK. Thread-safe.
absl::Status FinishAnswer(Verifier& verifier, Clock& clock, Observer& observer, const Query& query,
                          const Job& job, Answer& answer, TimeNs& finished_at);

// Counts the refusal of a request in the metrics; other errors are no refusals.
void ObserveRefusal(Observer& observer, const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ADMIT_H_
