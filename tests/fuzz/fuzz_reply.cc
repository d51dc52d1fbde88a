// The reply encoder against the generated protobuf code: an answer made from the input is encoded
// by hand and by protobuf, and the two must agree byte for byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forms/report.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/encode.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using histogram::Statistics;
using histogram::server::Answer;
using histogram::server::Method;
using histogram::server::Receipt;
using histogram::server::Reply;
namespace v1 = histogram::v1;

std::optional<double> TakeOptional(Input& input) {
  if (input.TakeByte() % 2 == 0) return std::nullopt;
  return input.Take<double>();
}

// Mostly small, as varints of every length matter.
uint64_t TakeNumber(Input& input) {
  const uint32_t shift = input.TakeByte() % 64;
  return input.Take<uint64_t>() >> shift;
}

template <typename T>
std::vector<T> TakeList(Input& input) {
  std::vector<T> list(input.TakeByte());
  for (T& value : list) value = input.Take<T>();
  return list;
}

Statistics TakeStatistics(Input& input) {
  Statistics s;
  for (auto* field : {&s.minimum, &s.maximum, &s.mean, &s.standard_deviation, &s.median, &s.mode,
                      &s.entropy_bits, &s.otsu_threshold}) {
    *field = TakeOptional(input);
  }
  s.quantiles = TakeList<double>(input);
  return s;
}

std::string TakeName(Input& input) {
  std::string name(input.TakeBytes(input.TakeByte() % 20));
  for (char& c : name) c = static_cast<char>('a' + (static_cast<uint8_t>(c) % 26));
  return name;
}

v1::RowAnswers TakeRows(Input& input) {
  v1::RowAnswers rows;
  rows.set_row_count(TakeNumber(input));
  rows.set_bin_count(static_cast<uint32_t>(TakeNumber(input)));
  for (auto* column : {rows.mutable_counts(), rows.mutable_samples(), rows.mutable_nan()}) {
    const auto list = TakeList<uint64_t>(input);
    column->Add(list.begin(), list.end());
  }
  for (auto* column : {rows.mutable_minimum(), rows.mutable_quantiles(), rows.mutable_upper()}) {
    const auto list = TakeList<double>(input);
    column->Add(list.begin(), list.end());
  }
  return rows;
}

// `rows` outlives the answer, which points there where it has rows.
Answer TakeAnswer(Input& input, v1::RowAnswers& rows) {
  Answer answer;
  const uint8_t kind = input.TakeByte();
  if (kind % 3 == 1) {
    rows = TakeRows(input);
    answer.rows = &rows;
  }
  if (kind % 3 == 2) answer.bins = TakeList<uint32_t>(input);
  answer.histogram.counts = TakeList<uint64_t>(input);
  answer.histogram.samples = TakeNumber(input);
  answer.histogram.below = TakeNumber(input);
  answer.histogram.above = TakeNumber(input);
  answer.histogram.ignored = TakeNumber(input);
  answer.histogram.nan = TakeNumber(input);
  if (input.TakeByte() % 2 == 1) answer.statistics = TakeStatistics(input);
  answer.edges = TakeList<double>(input);
  Receipt& receipt = answer.receipt;
  receipt.batch.backend = TakeName(input);
  receipt.batch.kernel = TakeName(input);
  receipt.batch.payloads = static_cast<uint32_t>(TakeNumber(input));
  receipt.batch.gather_ns = TakeNumber(input);
  receipt.batch.transfer_ns = TakeNumber(input);
  receipt.batch.kernel_ns = TakeNumber(input);
  receipt.queue_ns = TakeNumber(input);
  receipt.total_ns = TakeNumber(input);
  return answer;
}

void FillHistogram(const Answer& answer, bool omit_counts, v1::Histogram& out) {
  if (!omit_counts && answer.rows == nullptr) {
    out.mutable_bins()->Add(answer.bins.begin(), answer.bins.end());
    out.mutable_counts()->Add(answer.histogram.counts.begin(), answer.histogram.counts.end());
  }
  out.set_samples(answer.histogram.samples);
  out.set_below(answer.histogram.below);
  out.set_above(answer.histogram.above);
  out.set_ignored(answer.histogram.ignored);
  out.set_nan(answer.histogram.nan);
  if (answer.statistics.has_value()) SetStatistics(*answer.statistics, *out.mutable_statistics());
  out.mutable_edges()->Add(answer.edges.begin(), answer.edges.end());
}

void FillReceipt(const Receipt& receipt, v1::Receipt& out) {
  out.set_backend(receipt.batch.backend);
  out.set_kernel(receipt.batch.kernel);
  out.set_batch_payloads(receipt.batch.payloads);
  out.set_queue_ns(receipt.queue_ns);
  out.set_gather_ns(receipt.batch.gather_ns);
  out.set_transfer_ns(receipt.batch.transfer_ns);
  out.set_kernel_ns(receipt.batch.kernel_ns);
  out.set_total_ns(receipt.total_ns);
}

template <typename Message>
void Check(const Reply& reply, const Message& want) {
  std::vector<uint8_t> bytes;  // exactly: one byte more is an error
  EncodeReply(reply, [&](size_t size) {
    bytes.resize(size);
    return bytes.data();
  });
  Message message;
  FUZZ_CHECK(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "");
  FUZZ_CHECK(std::string(bytes.begin(), bytes.end()) == want.SerializeAsString(),
             message.DebugString() + "instead of\n" + want.DebugString());
}

void CheckReplies(const Answer& answer, bool omit_counts, bool final, uint64_t number) {
  v1::ComputeResponse compute;
  FillHistogram(answer, omit_counts, *compute.mutable_histogram());
  FillReceipt(answer.receipt, *compute.mutable_receipt());
  if (answer.rows != nullptr) *compute.mutable_rows() = *answer.rows;
  Check({Method::kCompute, answer, omit_counts}, compute);

  v1::ComputeManyResponse many;
  many.set_request_id(number);
  *many.mutable_response() = compute;
  Check({Method::kComputeMany, answer, omit_counts, number}, many);

  v1::AccumulateResponse accumulate;
  *accumulate.mutable_histogram() = compute.histogram();
  *accumulate.mutable_receipt() = compute.receipt();
  if (answer.rows != nullptr) *accumulate.mutable_rows() = compute.rows();
  accumulate.set_final(final);
  accumulate.set_chunks(number);
  Check({Method::kAccumulate, answer, omit_counts, number, final}, accumulate);
}

void CheckErrors(Input& input, uint64_t request_id) {
  histogram::ErrorDetail detail;
  detail.reason = TakeName(input);
  detail.field = TakeName(input);
  detail.limit = TakeNumber(input);
  if (input.TakeByte() % 2 == 1) detail.retry_after_ms = input.Take<uint32_t>();
  const std::string text = TakeName(input);
  const auto code = static_cast<absl::StatusCode>(1 + input.TakeByte() % 16);
  const absl::Status status = histogram::MakeError(code, text, detail);

  v1::ComputeManyResponse response;
  FUZZ_CHECK(
      response.ParseFromString(histogram::server::EncodeComputeManyError(request_id, status)), "");
  FUZZ_CHECK(response.request_id() == request_id, response.DebugString());
  const v1::Error& error = response.error();
  FUZZ_CHECK(error.code() == static_cast<int>(code) && error.message() == text,
             error.DebugString());
  FUZZ_CHECK(error.reason() == detail.reason && error.field() == detail.field, error.DebugString());
  FUZZ_CHECK(error.limit() == detail.limit, error.DebugString());
  FUZZ_CHECK(error.has_retry_after_ms() == detail.retry_after_ms.has_value() &&
                 error.retry_after_ms() == detail.retry_after_ms.value_or(0),
             error.DebugString());
  FUZZ_CHECK(histogram::server::EncodeError(status) == error.SerializeAsString(), "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t flags = input.TakeByte();
  const uint64_t number = TakeNumber(input);
  CheckErrors(input, number);
  v1::RowAnswers rows;
  CheckReplies(TakeAnswer(input, rows), (flags & 1) != 0, (flags & 2) != 0, number);
  return 0;
}
