#include "server/request/encode.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

template <typename Out>
void PutStatistics(const Statistics& s, Out& out) {
  uint32_t field = 0;
  for (const auto& [answer, value] : kStatisticFields) {
    ++field;
    if ((s.*value).has_value()) out.DoubleField(field, *(s.*value));
  }
  out.Fixed64s(v1::Statistics::kQuantilesFieldNumber, absl::MakeConstSpan(s.quantiles));
}

template <typename Out>
void PutReceipt(const Receipt& r, Out& out) {
  out.TextField(1, r.batch.backend);
  out.TextField(2, r.batch.kernel);
  out.VarintField(3, r.batch.payloads);
  out.VarintField(4, r.queue_ns);
  out.VarintField(5, r.batch.gather_ns);
  out.VarintField(6, r.batch.transfer_ns);
  out.VarintField(7, r.batch.kernel_ns);
  out.VarintField(8, r.total_ns);
}

v1::Error MakeErrorMessage(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  error.set_reason(detail.reason);
  error.set_field(detail.field);
  error.set_limit(detail.limit);
  if (detail.retry_after_ms.has_value()) error.set_retry_after_ms(*detail.retry_after_ms);
  return error;
}

// --- google.rpc.Status

template <typename Body>
std::string Serialize(const Body& body) {
  std::string bytes(wire::SizeOf(body), '\0');
  wire::Writer writer(bytes.data());
  body(writer);
  return bytes;
}

// A string, bytes or message field, sent even if it is empty.
std::string Field(uint32_t number, std::string_view content) {
  return Serialize([&](auto& out) { out.Bytes(number, content.data(), content.size()); });
}

std::string Number(uint32_t number, uint64_t value) {
  return Serialize([&](auto& out) { out.VarintField(number, value); });
}

// Status.details, a google.protobuf.Any.
std::string Detail(std::string_view type, std::string_view message) {
  return Field(
      3, Field(1, std::string("type.googleapis.com/google.rpc.").append(type)) + Field(2, message));
}

// ErrorInfo.metadata, a map from string to string.
std::string Metadata(std::string_view key, std::string_view value) {
  return Field(3, Field(1, key) + Field(2, value));
}

}  // namespace

// Flattened, like Write: calls of the small parts would cost a tenth of what a small reply takes.
[[gnu::flatten]] ReplyEncoder::ReplyEncoder(Method method, const Answer& answer, bool omit_counts,
                                            uint64_t number, bool final)
    : method_(method), answer_(answer), omit_counts_(omit_counts), number_(number), final_(final) {
  histogram_size_ = wire::SizeOf([this](auto& out) { PutHistogram(out); });
  receipt_size_ = wire::SizeOf([this](auto& out) { PutReceipt(answer_.receipt, out); });
  if (answer.rows != nullptr) answer.rows->ByteSizeLong();  // caches the sizes of its parts
  response_size_ = wire::SizeOf([this](auto& out) { this->PutComputeResponse(out); });
  size_ = wire::SizeOf([this](auto& out) { this->Put(out); });
}

template <typename Out>
void ReplyEncoder::PutHistogram(Out& out) const {
  const Histogram& h = answer_.histogram;
  const bool counts = !omit_counts_ && answer_.rows == nullptr;
  if (counts) out.Fixed64s(1, answer_.counts());
  out.VarintField(2, h.samples);
  out.VarintField(3, h.below);
  out.VarintField(4, h.above);
  out.VarintField(5, h.ignored);
  if (answer_.statistics.has_value()) {
    const auto put = [this](auto& to) { PutStatistics(*answer_.statistics, to); };
    out.Message(6, wire::SizeOf(put), put);
  }
  out.Fixed64s(7, absl::MakeConstSpan(answer_.edges));
  out.VarintField(8, h.nan);
  if (counts) out.Varints(9, absl::MakeConstSpan(answer_.bins));
}

// Leaves out the rows of an Accumulate: their field has another number.
template <typename Out>
void ReplyEncoder::PutComputeResponse(Out& out) const {
  out.Message(1, histogram_size_, [this](auto& to) { this->PutHistogram(to); });
  out.Message(2, receipt_size_, [this](auto& to) { PutReceipt(answer_.receipt, to); });
  if (answer_.rows != nullptr && method_ != Method::kAccumulate) out.Made(3, *answer_.rows);
}

template <typename Out>
void ReplyEncoder::Put(Out& out) const {
  if (method_ == Method::kComputeMany) {
    out.VarintField(1, number_);
    out.Message(2, response_size_, [this](auto& to) { this->PutComputeResponse(to); });
    return;
  }
  PutComputeResponse(out);
  if (method_ == Method::kCompute) return;
  out.VarintField(3, final_ ? 1 : 0);
  out.VarintField(4, number_);
  if (answer_.rows != nullptr) out.Made(5, *answer_.rows);
}

[[gnu::flatten]] uint8_t* ReplyEncoder::Write(uint8_t* out) const {
  wire::Writer writer(out);
  Put(writer);
  return writer.position();
}

std::string EncodeError(const absl::Status& status) {
  return MakeErrorMessage(status).SerializeAsString();
}

std::string EncodeComputeManyError(uint64_t request_id, const absl::Status& status) {
  v1::ComputeManyResponse response;
  response.set_request_id(request_id);
  *response.mutable_error() = MakeErrorMessage(status);
  return response.SerializeAsString();
}

std::string EncodeStatusDetails(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  const std::string message(status.message());
  std::string out = Number(1, static_cast<uint64_t>(status.code())) + Field(2, message);
  if (!detail.reason.empty()) {
    std::string info = Field(1, detail.reason) + Field(2, kErrorDomain);
    if (!detail.field.empty()) info += Metadata("field", detail.field);
    if (detail.limit != 0) info += Metadata("limit", absl::StrCat(detail.limit));
    out += Detail("ErrorInfo", info);
  }
  if (!detail.field.empty()) {
    out += Detail("BadRequest", Field(1, Field(1, detail.field) + Field(2, message)));
  }
  if (detail.retry_after_ms.has_value()) {
    constexpr uint32_t kMsPerSecond = 1000, kNsPerMs = 1'000'000;
    const uint32_t ms = *detail.retry_after_ms;
    out += Detail("RetryInfo", Field(1, Number(1, ms / kMsPerSecond) +
                                            Number(2, ms % kMsPerSecond * uint64_t{kNsPerMs})));
  }
  return out;
}

}  // namespace histogram::server
