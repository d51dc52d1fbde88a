#include "client/codec.h"

#include <array>
#include <utility>

namespace histogram::client {
namespace {

constexpr uint64_t kVarint = 0;
constexpr uint64_t kLengthDelimited = 2;

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendTag(std::string& out, int field, uint64_t wire_type) {
  AppendVarint(out, (static_cast<uint64_t>(field) << 3) | wire_type);
}

void AppendBytes(std::string& out, int field, absl::string_view bytes) {
  AppendTag(out, field, kLengthDelimited);
  AppendVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}

// What of a ComputeRequest comes before its payload.
std::string ComputeHead(absl::string_view spec, size_t payload_bytes) {
  std::string head;
  if (!spec.empty()) AppendBytes(head, v1::ComputeRequest::kSpecFieldNumber, spec);
  AppendTag(head, v1::ComputeRequest::kPayloadFieldNumber, kLengthDelimited);
  AppendVarint(head, payload_bytes);
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
    AppendTag(head, v1::ComputeManyRequest::kRequestIdFieldNumber, kVarint);
    AppendVarint(head, request_id);
  }
  AppendTag(head, v1::ComputeManyRequest::kRequestFieldNumber, kLengthDelimited);
  AppendVarint(head, request.size() + payload.size());
  head += request;
  return Join(head, payload);
}

grpc::ByteBuffer EncodeAccumulate(const v1::Spec* spec, bool snapshot, const grpc::Slice& chunk) {
  std::string head;
  if (spec != nullptr) {
    AppendBytes(head, v1::AccumulateRequest::kSpecFieldNumber, spec->SerializeAsString());
  }
  if (snapshot) {
    AppendTag(head, v1::AccumulateRequest::kSnapshotFieldNumber, kVarint);
    AppendVarint(head, 1);
  }
  AppendTag(head, v1::AccumulateRequest::kChunkFieldNumber, kLengthDelimited);
  AppendVarint(head, chunk.size());
  return Join(head, chunk);
}

}  // namespace histogram::client
