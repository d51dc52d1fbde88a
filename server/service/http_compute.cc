#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "forms/json.h"
#include "forms/query.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/http/connection.h"
#include "server/request/admit.h"
#include "server/request/answer.h"
#include "server/request/encode.h"
#include "server/service/http_port.h"

namespace histogram::server {
namespace {

// The most bytes of memory, for message, JSON tree and text, that a byte of the encoded reply
// takes. Counts of short rows are a byte each, without edges: 46 bytes for each were measured.
constexpr uint64_t kJsonFactor = 16, kRowsJsonFactor = 48;
constexpr uint64_t kJsonBytes = 4096;

// A request, or a part of its body. Owns what a lane reads; a lane that hangs may keep it for ever.
struct Message {
  std::shared_ptr<HttpBody> body;
  std::string text;  // a spec, or a ComputeRequest that came as JSON
  std::vector<Fragment> fragments;
  ParsedRequest parsed;  // points into the others
};

// A body on its way through the batcher: whole, or a part after the other. One part is counted
// while the next is received. All but Done runs on the port's thread.
class HttpCompute final : public Job, public std::enable_shared_from_this<HttpCompute> {
 public:
  HttpCompute(Caller caller_info, HttpForm form, std::shared_ptr<HttpConnection> exchange)
      : service_(caller_info.service),
        caller_info_(std::move(caller_info)),
        form_(form),
        exchange_(std::move(exchange)),
        started_at_(service_.clock.Now()),
        in_parts_(!exchange_->whole) {
    caller = caller_info_.FairnessId();
  }
  ~HttpCompute() override {
    if (!replied_ && !exchange_->replied) Report(absl::CancelledError("the client went away"));
  }

  // Counts what came of the body.
  void Take() {
    if (counting_) {
      waits_ = true;
      return;
    }
    const absl::Status status = Admit();
    if (const auto detail = GetErrorDetail(status);
        in_parts_ && detail.reason == "QUOTA_EXCEEDED" && detail.retry_after_ms.has_value()) {
      return exchange_->RunAfter(static_cast<TimeNs>(*detail.retry_after_ms) * 1000000,
                                 [self = shared_from_this()] { self->Take(); });
    }
    if (!status.ok()) return Refuse(status);
    exchange_->body.reset();  // the message has it
    last_ = exchange_->whole;
    counting_ = true;
    self_ = shared_from_this();
    const auto outcome = service_.batcher.Enqueue(
        this, in_parts_ ? Batcher::WhenFull::kWait : Batcher::WhenFull::kRefuse);
    if (!outcome.ok()) {
      self_.reset();
      return Refuse(outcome.status());
    }
    if (*outcome == Batcher::Outcome::kCounted) Done(absl::OkStatus());
    exchange_->ReadOn([self = shared_from_this()] { self->Take(); });
  }

  // From the batcher, by any thread.
  void Done(const absl::Status& status) override {
    const auto self = std::move(self_);
    quota_.Accept(caller_info_);
    if (!in_parts_) return Reply(status.ok() ? MakeAnswer() : status);
    part_ = status.ok() ? Recount(service_.verifier, service_.observer, *this) : status;
    if (part_.ok()) tallies_ = TakeTallies(*query_, *this);
    fragments = {};
    payload_owner.reset();
    exchange_->Run([self] { self->Counted(); });
  }

 private:
  void Counted() {
    counting_ = false;
    if (!part_.ok()) return Reply(part_);
    total_.Add(*query_, *this, tallies_);
    ForgetCounts();
    if (last_) return Reply(MakeAnswer());
    if (std::exchange(waits_, false)) Take();
  }

  void Refuse(const absl::Status& status) {
    quota_.GiveBack(caller_info_);
    Reply(status);
  }

  absl::Status Admit() {
    const HttpRequest& request = exchange_->request;
    const auto message = std::make_shared<Message>();
    message->body = exchange_->body;
    for (const HttpBody::Piece& piece : message->body->pieces) {
      if (piece.size > 0) message->fragments.emplace_back(piece.data.get(), piece.size);
    }
    const auto charge = [this](uint64_t size) { return quota_.Take(caller_info_, size); };
    absl::Status status;
    TimeNs until = kNever;
    if (form_ == HttpForm::kPlain) {
      if (query_ == nullptr) {
        absl::StatusOr<v1::Spec> spec = ReadQuery(request.query);
        if (!spec.ok()) return spec.status();
        spec_ = *std::move(spec);
        message->text = spec_.SerializeAsString();
      }
      message->parsed.spec = message->text;
      message->parsed.payload.assign(message->fragments.begin(), message->fragments.end());
      message->parsed.payload_bytes = message->body->bytes;
      status = AdmitParsed(in_parts_ ? Method::kAccumulate : Method::kCompute, service_.limits,
                           charge, message->parsed, query_);
    } else {
      if (form_ == HttpForm::kConnectJson) {
        v1::ComputeRequest body;
        status = JsonToMessage(message->body->Text(), body);
        if (!status.ok()) return status;
        message->text = body.SerializeAsString();
        message->fragments = {
            {reinterpret_cast<const uint8_t*>(message->text.data()), message->text.size()}};
      }
      until = *DeadlineOf(request);
      status = server::Admit(Method::kCompute, message->fragments, service_.limits, charge,
                             message->parsed, query_);
    }
    if (!status.ok()) return status;
    FillJob(message->parsed, message, query_, until, *this, in_parts_);
    const uint64_t reply_bytes = message->parsed.reply_bytes;
    // One thread serves the whole port.
    for_lane = std::max<uint64_t>(bytes, reply_bytes) >= kSmallBytesMax;
    if (holds_) return absl::OkStatus();
    return HoldReply(reply_bytes, in_parts_ ? 0 : message->body->held.bytes());
  }

  // Holds room for the reply, and for the total of parts, beside the body.
  absl::Status HoldReply(uint64_t reply_bytes, uint64_t body_bytes) {
    const uint64_t factor = query_->rows.has_value() ? kRowsJsonFactor : kJsonFactor;
    const uint64_t room =
        (in_parts_ ? query_->counter_bytes : 0) +
        (form_ == HttpForm::kConnectProto ? reply_bytes : factor * reply_bytes + kJsonBytes);
    if (const uint64_t limit = service_.memory.http->limit(); body_bytes + room > limit) {
      return InvalidField(
          "REPLY_TOO_LARGE", query_->rows.has_value() ? "spec.rows" : "spec.binning",
          absl::StrCat("the reply may take ", room, " bytes of memory beside the body's ",
                       body_bytes, ", more than the HTTP port's limit of ", limit),
          limit);
    }
    holds_ = exchange_->Hold(room);
    if (holds_) return absl::OkStatus();
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "bodies and replies of the HTTP port take all the memory that they may",
                     {.reason = "QUEUE_FULL", .retry_after_ms = 1000});
  }

  absl::StatusOr<std::string> MakeAnswer() {
    Answer answer;
    TimeNs finished_at = 0;
    const absl::Status status =
        in_parts_ ? total_.Finish(*query_, answer)
                  : FinishAnswer(service_.verifier, service_.clock, service_.observer, *query_,
                                 *this, answer, finished_at);
    if (in_parts_ && !status.ok()) service_.observer.IntegrityFailure();
    if (!status.ok()) return status;
    answer.receipt.total_ns = static_cast<uint64_t>(service_.clock.Now() - started_at_);
    std::string message;
    EncodeReply({Method::kCompute, answer, query_->omit_counts}, [&](size_t size) {
      message.resize(size);
      return reinterpret_cast<uint8_t*>(message.data());
    });
    if (form_ == HttpForm::kConnectProto) return message;
    v1::ComputeResponse response;
    if (!response.ParseFromString(message)) return absl::InternalError("the reply is no message");
    if (form_ == HttpForm::kConnectJson) return MessageToJson(response);
    return Dump(ReportsToJson({{.source = "body",
                                .spec = spec_,
                                .histogram = std::move(*response.mutable_histogram()),
                                .receipt = response.receipt(),
                                .rows = std::move(*response.mutable_rows())}}));
  }

  void Report(const absl::Status& status) {
    replied_ = true;
    caller_info_.Report(Method::kCompute, status, in_parts_ ? total_.bytes() : bytes,
                        static_cast<uint64_t>(service_.clock.Now() - started_at_));
  }

  void Reply(absl::StatusOr<std::string> answer) {
    if (replied_) return;
    if (answer.ok()) caller_info_.ChargeReply(answer->size());
    Report(answer.status());
    exchange_->Reply(MakeReply(std::move(answer), form_));
  }

  ServiceContext& service_;
  const Caller caller_info_;
  const HttpForm form_;
  const std::shared_ptr<HttpConnection> exchange_;
  const TimeNs started_at_;
  const bool in_parts_;
  bool counting_ = false, waits_ = false;  // a part is counted; the next one waits
  bool last_ = false;                      // the part that is counted
  bool holds_ = false;                     // room for the reply
  bool replied_ = false;
  std::shared_ptr<HttpCompute> self_;  // while the batcher has the job
  QuotaCharge quota_;
  v1::Spec spec_;  // of the query
  std::shared_ptr<const Query> query_;
  absl::Status part_;           // of the part that was counted last
  std::vector<Tally> tallies_;  // likewise
  Total total_;                 // of the parts so far
};

}  // namespace

const char* NeedsAgain(const v1::Spec& spec) {
  const bool wide = SampleBytes(TypeOf(spec)) > 2;
  if (spec.has_rows()) return spec.rows().has_windows() ? "windows" : "channels";
  if (spec.binning().even().range_of_data()) return "range";
  if (wide && spec.quantiles_size() > 0) return "quantiles";
  return wide && spec.statistics() ? "statistics" : nullptr;
}

absl::StatusOr<v1::Spec> ReadQuery(const std::string& query) {
  absl::StatusOr<v1::Spec> spec = SpecFromQuery(query);
  if (spec.ok()) return spec;
  const std::string message(spec.status().message());
  return MakeError(absl::StatusCode::kInvalidArgument, message,
                   {.reason = "BAD_PARAMETER", .field = message.substr(0, message.find(':'))});
}

void ComputeOverHttp(Caller caller, HttpForm form, std::shared_ptr<HttpConnection> exchange) {
  std::make_shared<HttpCompute>(std::move(caller), form, std::move(exchange))->Take();
}

}  // namespace histogram::server
