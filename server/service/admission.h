// The steps that every kind of call takes between a received message and the batcher.
#ifndef HISTOGRAM_SERVER_SERVICE_ADMISSION_H_
#define HISTOGRAM_SERVER_SERVICE_ADMISSION_H_

#include <memory>

#include "absl/status/status.h"
#include "server/batching/job.h"
#include "server/service/grpc_bytes.h"
#include "server/service/service_context.h"

namespace histogram::server {

// RESOURCE_EXHAUSTED (PAYLOAD_TOO_LARGE) for a payload over the limit; `field` names it.
absl::Status CheckPayload(const ParsedRequest& parsed, const char* field,
                          const TransportConfig& config);

// What is reported of a call that ended before its answer was sent.
absl::Status CancelledCall();

// Points `job` at the message's payload; who calls is left to Job::Identify, or to the caller.
void FillJob(const std::shared_ptr<ReceivedMessage>& message, const Plan& plan, TimeNs deadline,
             Job& job);

// From a counted job to the checked answer: fold, check of the sum, recount of a sample. The answer
// may point at the job's counts. `finished_at` is set where it is OK.
absl::Status FinishAnswer(ServiceContext& service, const Plan& plan, const Job& job, Answer& answer,
                          TimeNs& finished_at);

// Counts the refusal of a request in the metrics; other errors are no refusals.
void ObserveRefusal(Observer& observer, const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_ADMISSION_H_
