#include "server/request/admit.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {
namespace {

struct Kind {
  absl::Status (*parse)(absl::Span<const Fragment> message, ParsedRequest& out);
  const char* field;   // that holds the payload
  const char* advice;  // for a payload that is too large
};

Kind Of(MessageKind kind) {
  static constexpr char kUseAccumulate[] = "; send larger ones in chunks through Accumulate";
  switch (kind) {
    case MessageKind::kCompute:
      return {ParseComputeRequest, "payload", kUseAccumulate};
    case MessageKind::kComputeMany:
      return {ParseComputeManyRequest, "request.payload", kUseAccumulate};
    case MessageKind::kAccumulate:
      break;
  }
  return {ParseAccumulateRequest, "chunk", "; send it in smaller chunks"};
}

}  // namespace

absl::Status Admit(MessageKind kind, absl::Span<const Fragment> message,
                   const AdmissionLimits& limits, Charge charge, ParsedRequest& parsed,
                   std::shared_ptr<const Query>& query) {
  const Kind of = Of(kind);
  if (absl::Status s = of.parse(message, parsed); !s.ok()) return s;
  if (parsed.payload_bytes > limits.payload_bytes_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat(of.field, ": ", parsed.payload_bytes, " bytes are more than the limit of ",
                     limits.payload_bytes_max, of.advice),
        {.reason = "PAYLOAD_TOO_LARGE", .field = of.field, .limit = limits.payload_bytes_max});
  }
  if (query == nullptr) {
    auto made = MakeQueryCached(parsed.spec, limits.query);
    if (!made.ok()) return made.status();
    query = *std::move(made);
  }
  if (kind == MessageKind::kAccumulate && query->needs_order() && !query->quantiles.empty()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("spec.quantiles: Accumulate sees the samples once, which does not "
                     "tell the quantiles of ",
                     std::string(NameOf(query->type())),
                     "; send the payload as a whole through Compute"),
        {.reason = "BAD_QUANTILE", .field = "spec.quantiles"});
  }
  const uint64_t sample_bytes = SampleBytesOf(query->plan);
  if (parsed.payload_bytes % sample_bytes != 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat(of.field, ": ", parsed.payload_bytes, " bytes are no whole number of ",
                     std::string(NameOf(query->type())), " samples, of ", sample_bytes,
                     " bytes each"),
        {.reason = "PARTIAL_SAMPLE", .field = of.field, .limit = sample_bytes});
  }
  return charge(parsed.payload_bytes);
}

void FillJob(const ParsedRequest& parsed, std::shared_ptr<const void> owner, const Query& query,
             TimeNs deadline, Job& job) {
  job.fragments = parsed.payload;
  job.bytes = parsed.payload_bytes;
  job.charge_bytes = job.bytes + query.reply_bytes + query.counter_bytes;
  if (query.needs_order()) job.charge_bytes += job.bytes;  // once more, in one piece
  job.plan = query.plan;
  job.deadline = deadline;
  job.payload_owner = std::move(owner);
}

absl::Status FinishAnswer(Verifier& verifier, Clock& clock, Observer& observer, const Query& query,
                          const Job& job, Answer& answer, TimeNs& finished_at) {
  const TimeNs begin = clock.Now();
  absl::Status status =
      query.plan.has_value()
          ? MakeTypedAnswer(query, job.slots, job.bytes / SampleBytesOf(query.plan), answer)
          : MakeAnswer(query, job.counts, job.bytes, answer);
  if (status.ok() && query.plan.has_value() && query.statistics) {
    AddTypedStatistics(query, job.fragments, answer);
  }
  if (status.ok()) status = verifier.Check(query, job);
  if (!status.ok()) {
    observer.IntegrityFailure();
    return status;
  }
  answer.receipt.batch = job.report;
  answer.receipt.queue_ns = job.queue_ns;
  finished_at = clock.Now();
  observer.StageFinished(Stage::kFold, job.report.backend,
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
