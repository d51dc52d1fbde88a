#include "client/codec.h"

#include <array>
#include <utility>

#include "client/varint.h"

namespace histogram::client {
namespace {

// What of a ComputeRequest comes before its payload.
std::string ComputeHead(absl::string_view spec, size_t payload_bytes) {
  std::string head;
  if (!spec.empty()) {
    AppendLengthPrefix(head, v1::ComputeRequest::kSpecFieldNumber, spec.size());
    head.append(spec.data(), spec.size());
  }
  AppendLengthPrefix(head, v1::ComputeRequest::kPayloadFieldNumber, payload_bytes);
  return head;
}

grpc::ByteBuffer Join(const std::string& head, const grpc::Slice& payload) {
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(head), payload};
  return {slices.data(), payload.size() == 0 ? size_t{1} : size_t{2}};
}

}  // namespace

grpc::Slice OwningSlice(std::string bytes) {
  if (bytes.empty()) return {};
  auto* owned = new std::string(std::move(bytes));
  return {owned->data(), owned->size(),
          [](void* string) { delete static_cast<std::string*>(string); }, owned};
}

grpc::ByteBuffer EncodeCompute(const v1::Spec& spec, const grpc::Slice& payload) {
  return Join(ComputeHead(spec.SerializeAsString(), payload.size()), payload);
}

grpc::ByteBuffer EncodeComputeMany(uint64_t request_id, absl::string_view spec,
                                   const grpc::Slice& payload) {
  const std::string request = ComputeHead(spec, payload.size());
  std::string head;
  if (request_id != 0) {
    AppendNumberField(head, v1::ComputeManyRequest::kRequestIdFieldNumber, request_id);
  }
  AppendLengthPrefix(head, v1::ComputeManyRequest::kRequestFieldNumber,
                     request.size() + payload.size());
  head += request;
  return Join(head, payload);
}

grpc::ByteBuffer EncodeAccumulate(const v1::Spec* spec, bool snapshot, const grpc::Slice& chunk) {
  std::string head;
  if (spec != nullptr) {
    const std::string bytes = spec->SerializeAsString();
    AppendLengthPrefix(head, v1::AccumulateRequest::kSpecFieldNumber, bytes.size());
    head += bytes;
  }
  if (snapshot) AppendNumberField(head, v1::AccumulateRequest::kSnapshotFieldNumber, 1);
  AppendLengthPrefix(head, v1::AccumulateRequest::kChunkFieldNumber, chunk.size());
  return Join(head, chunk);
}

}  // namespace histogram::client
