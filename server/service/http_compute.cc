#include <google/protobuf/util/json_util.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "forms/json.h"
#include "forms/query.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/request/admit.h"
#include "server/request/encode.h"
#include "server/request/wire.h"
#include "server/service/http_port.h"

namespace histogram::server {
namespace {

constexpr uint32_t kSpecField = 1, kPayloadField = 15;  // of a ComputeRequest
// Of a byte of the encoded reply, at most: message, JSON tree and text.
constexpr uint64_t kJsonFactor = 16;
constexpr uint64_t kJsonBytes = 4096;

// A ComputeRequest in pieces. Owns what a lane reads; a lane that hangs may keep it for ever.
struct Message {
  std::shared_ptr<HttpBody> body;
  std::string head;  // the bytes before the body
  std::vector<Fragment> fragments;
  ParsedRequest parsed;  // points into the others
};

void AddBody(Message& message) {
  for (const HttpBody::Piece& piece : message.body->pieces) {
    if (piece.size > 0) message.fragments.emplace_back(piece.data.get(), piece.size);
  }
}

// The message whose spec is the query's, and whose payload is the body.
absl::Status MakePlainMessage(const HttpRequest& request, v1::Spec& spec, Message& message) {
  absl::StatusOr<v1::Spec> from_query = ReadQuery(request.query);
  if (!from_query.ok()) return from_query.status();
  spec = *std::move(from_query);
  const std::string text = spec.SerializeAsString();
  const auto put = [&](auto& out) {
    out.Length(kSpecField, text.size());
    out.Raw(text.data(), text.size());
    out.Length(kPayloadField, request.body->bytes);
  };
  message.head.resize(wire::SizeOf(put));
  wire::Writer writer(message.head.data());
  put(writer);
  message.fragments.emplace_back(reinterpret_cast<const uint8_t*>(message.head.data()),
                                 message.head.size());
  AddBody(message);
  return absl::OkStatus();
}

absl::Status MakeJsonMessage(Message& message) {
  std::string text;
  for (const HttpBody::Piece& piece : message.body->pieces) {
    text.append(reinterpret_cast<const char*>(piece.data.get()), piece.size);
  }
  v1::ComputeRequest request;
  const auto read = google::protobuf::util::JsonStringToMessage(text, &request);
  if (!read.ok()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("the body is no ComputeRequest in JSON: ", std::string(read.message())),
        {.reason = "MALFORMED_MESSAGE", .field = "message"});
  }
  message.head = request.SerializeAsString();
  message.fragments.emplace_back(reinterpret_cast<const uint8_t*>(message.head.data()),
                                 message.head.size());
  return absl::OkStatus();
}

// The batcher's job. Lives until it has replied.
class HttpCompute final : public Job {
 public:
  HttpCompute(ServiceContext& service, Caller caller_info, HttpForm form,
              std::shared_ptr<HttpExchange> exchange)
      : service_(service),
        caller_info_(std::move(caller_info)),
        form_(form),
        exchange_(std::move(exchange)),
        started_at_(service.clock.Now()) {}

  static void Run(std::unique_ptr<HttpCompute> call) {
    const absl::Status status = call->Admit();
    if (!status.ok()) return call->Refuse(status);
    const auto outcome = call->service_.batcher.Enqueue(call.get(), Batcher::WhenFull::kRefuse);
    if (!outcome.ok()) return call->Refuse(outcome.status());
    // Unless it was counted here, Done deletes the object, or has done so.
    HttpCompute* const accepted = call.release();
    if (*outcome == Batcher::Outcome::kCounted) accepted->Done(absl::OkStatus());
  }

  // From the batcher, by any thread.
  void Done(const absl::Status& status) override {
    const std::unique_ptr<HttpCompute> self(this);
    quota_.Accept(service_, caller_info_);
    std::string answer;
    const absl::Status made = status.ok() ? MakeAnswer(answer) : status;
    Reply(made, std::move(answer));
  }

  void SetCaller() override {
    caller = caller_info_.tenant != nullptr ? caller_info_.tenant->id()
                                            : absl::HashOf(caller_info_.peer);
  }

 private:
  void Refuse(const absl::Status& status) {
    quota_.GiveBack(caller_info_);
    ObserveRefusal(service_.observer, status);
    Reply(status, "");
  }

  absl::Status Admit() {
    HttpRequest& request = exchange_->request;
    message_ = std::make_shared<Message>();
    message_->body = std::move(request.body);
    request.body = message_->body;
    absl::Status status;
    if (form_ == HttpForm::kPlain) status = MakePlainMessage(request, spec_, *message_);
    if (form_ == HttpForm::kConnectJson) status = MakeJsonMessage(*message_);
    if (form_ == HttpForm::kConnectProto) AddBody(*message_);
    if (status.ok()) status = FindDeadline(request);
    request.body.reset();  // the message has it
    if (!status.ok()) return status;
    status = server::Admit(
        Method::kCompute, message_->fragments, service_.limits(),
        [this](uint64_t size) { return quota_.Take(service_, caller_info_, size); },
        message_->parsed, query_);
    bytes = message_->parsed.payload_bytes;
    if (!status.ok()) return status;
    const auto until = deadline;
    FillJob(message_->parsed, message_, query_, until, *this);
    for_lane = bytes >= kHandOverBytesMin;  // one thread serves the whole port
    const uint64_t reply_bytes = message_->parsed.reply_bytes;
    const bool json = form_ != HttpForm::kConnectProto;
    if (exchange_->Hold(json ? kJsonFactor * reply_bytes + kJsonBytes : reply_bytes)) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "bodies and replies of the HTTP port take all the memory that they may",
                     {.reason = "QUEUE_FULL", .retry_after_ms = 1000});
  }

  absl::Status FindDeadline(const HttpRequest& request) {
    const std::string text(request.Header("connect-timeout-ms"));
    if (form_ == HttpForm::kPlain || text.empty()) return absl::OkStatus();
    uint64_t ms = 0;
    if (text.size() > 10 || text.find_first_not_of("0123456789") != std::string::npos ||
        !absl::SimpleAtoi(text, &ms)) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       "Connect-Timeout-Ms: must be a whole number of at most ten digits",
                       {.reason = "BAD_HEADER", .field = "Connect-Timeout-Ms"});
    }
    deadline = request.arrived_at + static_cast<TimeNs>(ms) * 1000000;
    return absl::OkStatus();
  }

  absl::Status MakeAnswer(std::string& text) {
    Answer answer;
    TimeNs finished_at = 0;
    absl::Status status = FinishAnswer(service_.verifier, service_.clock, service_.observer,
                                       *query_, *this, answer, finished_at);
    if (!status.ok()) return status;
    answer.receipt.total_ns = static_cast<uint64_t>(finished_at - started_at_);
    const ReplyEncoder encoder = ReplyEncoder::ComputeResponse(answer, query_->omit_counts);
    text.resize(encoder.size());
    encoder.Write(reinterpret_cast<uint8_t*>(text.data()));
    if (form_ == HttpForm::kConnectProto) return absl::OkStatus();
    v1::ComputeResponse response;
    if (!response.ParseFromString(text)) return absl::InternalError("the reply is no message");
    text.clear();
    if (form_ == HttpForm::kPlain) {
      text = Dump(ReportsToJson({{.source = "body",
                                  .spec = spec_,
                                  .histogram = std::move(*response.mutable_histogram()),
                                  .receipt = response.receipt()}}));
      return absl::OkStatus();
    }
    return google::protobuf::util::MessageToJsonString(response, &text).ok()
               ? absl::OkStatus()
               : absl::InternalError("the reply cannot be written as JSON");
  }

  void Reply(const absl::Status& status, std::string answer) {
    if (status.ok()) ChargeReply(service_, caller_info_, answer.size());
    ReportCall(service_, caller_info_, Method::kCompute, status, bytes,
               static_cast<uint64_t>(service_.clock.Now() - started_at_));
    exchange_->Reply(status.ok() ? AnswerReply(std::move(answer), form_)
                                 : ErrorReply(status, form_));
  }

  ServiceContext& service_;
  const Caller caller_info_;
  const HttpForm form_;
  const std::shared_ptr<HttpExchange> exchange_;
  const TimeNs started_at_;
  QuotaCharge quota_;
  v1::Spec spec_;  // of the query
  std::shared_ptr<Message> message_;
  std::shared_ptr<const Query> query_;
};

}  // namespace

absl::StatusOr<v1::Spec> ReadQuery(const std::string& query) {
  absl::StatusOr<v1::Spec> spec = SpecFromQuery(query);
  if (spec.ok()) return spec;
  const std::string message(spec.status().message());
  return MakeError(absl::StatusCode::kInvalidArgument, message,
                   {.reason = "BAD_PARAMETER", .field = message.substr(0, message.find(':'))});
}

void ComputeOverHttp(ServiceContext& service, Caller caller, HttpForm form,
                     std::shared_ptr<HttpExchange> exchange) {
  HttpCompute::Run(
      std::make_unique<HttpCompute>(service, std::move(caller), form, std::move(exchange)));
}

}  // namespace histogram::server
