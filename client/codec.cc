#include "client/codec.h"

#include <array>
#include <utility>

namespace histogram::client {
namespace {

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// A field that holds one number.
void AppendNumberField(std::string& out, int field, uint64_t value) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3);
  AppendVarint(out, value);
}

// The tag and length before the `length` bytes of a field of bytes, text or a message.
void AppendLengthPrefix(std::string& out, int field, uint64_t length) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3 | 2);
  AppendVarint(out, length);
}

// Encodes the fields of a ComputeRequest that precede its payload.
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

grpc::ByteBuffer EncodeCompute(absl::string_view spec, const grpc::Slice& payload) {
  return Join(ComputeHead(spec, payload.size()), payload);
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
