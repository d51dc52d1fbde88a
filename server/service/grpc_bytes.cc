#include "server/service/grpc_bytes.h"

#include <grpc/support/time.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/rpc/grpc_internals.h"

namespace histogram::server {

absl::Status CompressedMessage() {
  return MakeError(absl::StatusCode::kUnimplemented,
                   "the message is compressed, which this server does not take; switch "
                   "compression off in the client, for this call or its channel",
                   {.reason = "COMPRESSED_MESSAGE", .field = "grpc-encoding"});
}

std::shared_ptr<ReceivedMessage> TakeMessage(grpc::ByteBuffer& message) {
  auto received = std::make_shared<ReceivedMessage>();
  if (IsCompressed(message)) return nullptr;
  if (!message.Valid()) return received;  // an empty message
  received->buffer.Swap(&message);
  if (!received->buffer.Dump(&received->slices).ok()) return nullptr;
  received->fragments.reserve(received->slices.size());
  for (const grpc::Slice& slice : received->slices) {
    received->fragments.emplace_back(slice.begin(), slice.size());
  }
  return received;
}

grpc::ByteBuffer EncodeMessage(const Reply& reply) {
  grpc::Slice slice;
  EncodeReply(reply, [&](size_t bytes) { return WritableBytes(slice = grpc::Slice(bytes)); });
  return {&slice, 1};
}

grpc::ByteBuffer EncodeMessage(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

TimeNs DeadlineOf(const grpc::ServerContext& context) {
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return kNever;
  constexpr int64_t kSecondsMax = kNever / 1000000000 - 1;
  if (deadline.tv_sec >= kSecondsMax) return kNever;
  return deadline.tv_sec * 1000000000 + deadline.tv_nsec;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

grpc::Status FailCall(const absl::Status& status, grpc::ServerContext& context) {
  context.AddTrailingMetadata("histogram-error-bin", EncodeError(status));
  context.AddTrailingMetadata("grpc-status-details-bin", EncodeStatusDetails(status));
  const ErrorDetail detail = GetErrorDetail(status);
  if (detail.retry_after_ms.has_value()) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*detail.retry_after_ms));
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "-1");  // trying again cannot help
  }
  return ToGrpcStatus(status);
}

}  // namespace histogram::server
