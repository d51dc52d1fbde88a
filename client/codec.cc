#include "client/codec.h"

#include <histogram/client.h>
#include <histogram/sample_type.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace histogram::client {
namespace {

constexpr absl::string_view kDetailUrl = "type.googleapis.com/histogram.v1.Error";
constexpr char kDetailTrailer[] = "histogram-error-bin";

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
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

absl::Status WithDetail(absl::Status status, const v1::Error& error) {
  status.SetPayload(kDetailUrl, absl::Cord(error.SerializeAsString()));
  return status;
}

absl::Status Bad(const std::string& what) {
  return absl::InternalError(absl::StrCat("the reply is not to be trusted: ", what));
}

// INTERNAL unless the counts of each row add up to its samples.
absl::Status CheckRows(const v1::Spec& spec, const v1::RowAnswers& rows) {
  const auto row_count = static_cast<int64_t>(rows.row_count());
  if (rows.samples_size() != row_count) return Bad("it has rows without a number of samples");
  for (const auto* column : {&rows.below(), &rows.above(), &rows.ignored(), &rows.nan()}) {
    if (!column->empty() && column->size() != row_count) return Bad("its columns differ in length");
  }
  if (spec.omit_counts()) return absl::OkStatus();
  if (rows.counts_size() != row_count * rows.bin_count()) return Bad("it lacks counts of rows");
  const auto of_row = [](const auto& column, int row) {
    return column.empty() ? uint64_t{0} : column[row];
  };
  for (int row = 0; row < row_count; ++row) {
    uint64_t sum = of_row(rows.below(), row) + of_row(rows.above(), row) +
                   of_row(rows.ignored(), row) + of_row(rows.nan(), row);
    const int bins = static_cast<int>(rows.bin_count());
    for (int bin = 0; bin < bins; ++bin) sum += rows.counts(row * bins + bin);
    if (sum == rows.samples(row)) continue;
    return Bad(absl::StrCat("the counts of row ", row, " add up to ", sum, " of ",
                            rows.samples(row), " samples"));
  }
  return absl::OkStatus();
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
    AppendVarint(head, uint64_t{v1::ComputeManyRequest::kRequestIdFieldNumber} << 3);
    AppendVarint(head, request_id);
  }
  AppendLengthPrefix(head, v1::ComputeManyRequest::kRequestFieldNumber,
                     request.size() + payload.size());
  head += request;
  return Join(head, payload);
}

grpc::ByteBuffer EncodeAccumulate(const v1::Spec* spec, bool snapshot, const grpc::Slice& chunk) {
  v1::AccumulateRequest but_chunk;
  if (spec != nullptr) *but_chunk.mutable_spec() = *spec;
  but_chunk.set_snapshot(snapshot);
  std::string head = but_chunk.SerializeAsString();
  AppendLengthPrefix(head, v1::AccumulateRequest::kChunkFieldNumber, chunk.size());
  return Join(head, chunk);
}

absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  // The numbers of both enums are those of google.rpc.Code.
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto it = trailers.find(kDetailTrailer); it != trailers.end()) {
    v1::Error error;
    if (error.ParseFromArray(it->second.data(), static_cast<int>(it->second.size()))) {
      return WithDetail(std::move(result), error);
    }
  }
  return result;
}

absl::Status ToStatus(const v1::Error& error) {
  auto code = static_cast<absl::StatusCode>(error.code());
  if (error.code() <= 0 || error.code() > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    code = absl::StatusCode::kUnknown;
  }
  return WithDetail(absl::Status(code, error.message()), error);
}

std::optional<v1::Error> ErrorDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailUrl);
  if (!payload.has_value()) return std::nullopt;
  v1::Error error;
  if (!error.ParseFromString(std::string(*payload))) return std::nullopt;
  return error;
}

uint64_t SampleBytes(const v1::Spec& spec) {
  return histogram::SampleBytes(SampleTypeOf(spec.sample_type()).value_or(SampleType::kU8));
}

absl::Status CheckReply(const v1::Spec& spec, const v1::Histogram& histogram,
                        const v1::RowAnswers& rows, uint64_t payload_bytes) {
  const uint64_t samples = payload_bytes / SampleBytes(spec);
  if (histogram.samples() != samples) {
    return Bad(absl::StrCat(samples, " samples were sent, it counts ", histogram.samples()));
  }
  // Of rows the histogram holds the samples only.
  if (spec.has_rows()) return CheckRows(spec, rows);
  if (spec.omit_counts()) return absl::OkStatus();
  uint64_t sum = 0;
  for (const uint64_t count : histogram.counts()) sum += count;
  sum += histogram.below() + histogram.above() + histogram.ignored() + histogram.nan();
  if (sum == samples) return absl::OkStatus();
  return Bad(absl::StrCat("its counts add up to ", sum, " of ", samples, " samples"));
}

}  // namespace histogram::client
