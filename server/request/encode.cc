#include "server/request/encode.h"

#include <cassert>
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

template <typename Out>
void PutHistogram(const Reply& reply, Out& out) {
  const Answer& answer = reply.answer;
  const Histogram& h = answer.histogram;
  const bool counts = !reply.omit_counts && answer.rows == nullptr;
  if (counts) out.Fixed64s(1, answer.counts());
  out.VarintField(2, h.samples);
  out.VarintField(3, h.below);
  out.VarintField(4, h.above);
  out.VarintField(5, h.ignored);
  if (answer.statistics.has_value()) {
    const auto put = [&](auto& to) { PutStatistics(*answer.statistics, to); };
    out.Message(6, wire::SizeOf(put), put);
  }
  out.Fixed64s(7, absl::MakeConstSpan(answer.edges));
  out.VarintField(8, h.nan);
  if (counts) out.Varints(9, absl::MakeConstSpan(answer.bins));
}

// Of a reply's parts.
struct Sizes {
  size_t histogram = 0, receipt = 0;
  size_t response = 0;  // of the ComputeResponse in a ComputeManyResponse
};

// Leaves out the rows of an Accumulate: their field has another number.
template <typename Out>
void PutComputeResponse(const Reply& reply, const Sizes& sizes, Out& out) {
  const Answer& answer = reply.answer;
  out.Message(1, sizes.histogram, [&](auto& to) { PutHistogram(reply, to); });
  out.Message(2, sizes.receipt, [&](auto& to) { PutReceipt(answer.receipt, to); });
  if (answer.rows != nullptr && reply.method != Method::kAccumulate) out.Made(3, *answer.rows);
}

template <typename Out>
void PutReply(const Reply& reply, const Sizes& sizes, Out& out) {
  if (reply.method == Method::kComputeMany) {
    out.VarintField(1, reply.number);
    return out.Message(2, sizes.response, [&](auto& to) { PutComputeResponse(reply, sizes, to); });
  }
  PutComputeResponse(reply, sizes, out);
  if (reply.method == Method::kCompute) return;
  out.VarintField(3, reply.final ? 1 : 0);
  out.VarintField(4, reply.number);
  if (reply.answer.rows != nullptr) out.Made(5, *reply.answer.rows);
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

// Flattened: calls of the small parts would cost a tenth of what a small reply takes.
[[gnu::flatten]] void EncodeReply(const Reply& reply,
                                  absl::FunctionRef<uint8_t*(size_t bytes)> allocate) {
  if (reply.answer.rows != nullptr) reply.answer.rows->ByteSizeLong();  // caches the parts' sizes
  Sizes sizes;
  sizes.histogram = wire::SizeOf([&](auto& out) { PutHistogram(reply, out); });
  sizes.receipt = wire::SizeOf([&](auto& out) { PutReceipt(reply.answer.receipt, out); });
  sizes.response = wire::SizeOf([&](auto& out) { PutComputeResponse(reply, sizes, out); });
  const auto put = [&](auto& out) { PutReply(reply, sizes, out); };
  const size_t bytes = wire::SizeOf(put);
  uint8_t* const out = allocate(bytes);
  wire::Writer writer(out);
  put(writer);
  assert(writer.position() == out + bytes);
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
