#include "server/service/admission.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {

absl::Status CheckPayload(const ParsedRequest& parsed, const char* field,
                          const TransportConfig& config) {
  if (parsed.payload_bytes <= config.payload_bytes_max) return absl::OkStatus();
  const bool is_chunk = field == std::string_view("chunk");
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(field, ": ", parsed.payload_bytes, " bytes are more than the limit of ",
                   config.payload_bytes_max,
                   is_chunk ? "; send it in smaller chunks"
                            : "; send larger ones in chunks through Accumulate"),
      {.reason = "PAYLOAD_TOO_LARGE", .field = field, .limit = config.payload_bytes_max});
}

absl::Status CancelledCall() {
  return absl::CancelledError(
      "the client cancelled the call or went away, its deadline passed, or a message was over "
      "gRPC's own maximum");
}

void FillJob(const std::shared_ptr<ReceivedMessage>& message, const Plan& plan, TimeNs deadline,
             Job& job) {
  job.fragments = message->parsed.payload;
  job.bytes = message->parsed.payload_bytes;
  job.charge_bytes = job.bytes + plan.reply_bytes;
  job.bin_count = plan.binning.bin_count();
  job.deadline = deadline;
  job.payload_owner = message;
}

absl::Status FinishAnswer(ServiceContext& service, const Plan& plan, const Job& job, Answer& answer,
                          TimeNs& finished_at) {
  const TimeNs begin = service.clock.Now();
  absl::Status status = MakeAnswer(plan, job.counts, job.bytes, answer);
  if (status.ok()) status = service.verifier.Check(job.fragments, job.counts);
  if (!status.ok()) {
    service.observer.IntegrityFailure();
    return status;
  }
  answer.receipt.batch = job.report;
  answer.receipt.queue_ns = job.queue_ns;
  finished_at = service.clock.Now();
  service.observer.StageFinished(Stage::kFold, job.report.backend,
                                 static_cast<uint64_t>(finished_at - begin));
  return absl::OkStatus();
}

void ObserveRefusal(Observer& observer, const absl::Status& status) {
  const std::string reason = GetErrorDetail(status).reason;
  if (reason == "QUEUE_FULL") {
    observer.Rejected(RejectReason::kQueueFull);
  } else if (reason == "PAYLOAD_TOO_LARGE") {
    observer.Rejected(RejectReason::kPayloadTooLarge);
  } else if (reason == "TOO_MANY_BINS") {
    observer.Rejected(RejectReason::kTooManyBins);
  } else if (reason == "DRAINING") {
    observer.Rejected(RejectReason::kDraining);
  } else if (reason == "QUOTA_EXCEEDED") {
    observer.Rejected(RejectReason::kQuota);
  } else if (reason == "UNAUTHENTICATED") {
    observer.Rejected(RejectReason::kUnauthenticated);
  } else if (reason == "COMPRESSED_MESSAGE") {
    observer.Rejected(RejectReason::kCompressed);
  } else if (reason == "HEADERS_TOO_LARGE") {
    observer.Rejected(RejectReason::kHeadersTooLarge);
  } else if (status.code() == absl::StatusCode::kInvalidArgument) {
    observer.Rejected(RejectReason::kBadRequest);
  }
}

}  // namespace histogram::server
