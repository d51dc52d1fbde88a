// Between gRPC's types and ours: slices, deadlines, statuses.
#ifndef HISTOGRAM_SERVER_SERVICE_GRPC_BYTES_H_
#define HISTOGRAM_SERVER_SERVICE_GRPC_BYTES_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/batch.h"
#include "server/base/clock.h"
#include "server/request/codec.h"
#include "server/request/encode.h"

namespace histogram::server {

// One received message: its bytes, which stay where gRPC received them, and what they were parsed
// to. Shared, so that a lane that was given up on can still read them after the call is over.
struct ReceivedMessage {
  // Holds the bytes. Destroyed last, so that no slice drops the last reference to them. Outside of
  // gRPC's calls that may crash: it can wake what reclaims memory, which takes the thread for one
  // of gRPC's own. A byte buffer may go on any thread.
  grpc::ByteBuffer buffer;
  std::vector<grpc::Slice> slices;  // small slices hold their bytes themselves: never moved
  std::vector<Fragment> fragments;  // one for each slice
  ParsedRequest parsed;             // points into the slices
};

// A reply of a stream that waits to be written.
struct PendingReply {
  grpc::ByteBuffer message;
  uint64_t bytes = 0;  // held for it, see CallGuard
};

// UNIMPLEMENTED (COMPRESSED_MESSAGE), as gRPC has it for an encoding that a server does not take.
absl::Status CompressedMessage();

// Takes the message's bytes and leaves it empty. Null where they are compressed: a small message
// could inflate to any size.
std::shared_ptr<ReceivedMessage> TakeMessage(grpc::ByteBuffer& message);

// A message of exactly the reply's bytes.
grpc::ByteBuffer EncodeMessage(const Reply& reply);
grpc::ByteBuffer EncodeMessage(const std::string& bytes);

// The call's deadline on the monotonic clock; kNever where it has none.
TimeNs DeadlineOf(const grpc::ServerContext& context);

// The status for the wire, without trailers.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same, and the trailers that go with it: `histogram-error-bin`, `grpc-status-details-bin`, and
// `grpc-retry-pushback-ms` where the error says when to come again or that it is final
// (RESOURCE_EXHAUSTED without a hint).
grpc::Status FailCall(const absl::Status& status, grpc::ServerContext& context);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_GRPC_BYTES_H_
