#include "server/request/encode.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/whole_count.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

using wire::VarintSize;
using wire::Writer;

constexpr size_t kDoubleFieldSize = 1 + sizeof(double);

size_t VarintFieldSize(uint64_t value) { return value == 0 ? 0 : 1 + VarintSize(value); }

// A length-delimited field with a one-byte tag.
size_t LengthFieldSize(size_t size) { return 1 + VarintSize(size) + size; }

template <typename Visit>
void VisitStatistics(const Statistics& s, Visit&& visit) {
  visit(1, s.minimum);
  visit(2, s.maximum);
  visit(3, s.mean);
  visit(4, s.standard_deviation);
  visit(5, s.median);
  visit(6, s.mode);
  visit(7, s.entropy_bits);
  visit(8, s.otsu_threshold);
}

size_t StatisticsSize(const Statistics& s) {
  size_t size = 0;
  VisitStatistics(s, [&](uint32_t, const std::optional<double>& value) {
    if (value.has_value()) size += kDoubleFieldSize;
  });
  if (!s.quantiles.empty()) size += LengthFieldSize(s.quantiles.size() * sizeof(double));
  return size;
}

void WriteStatistics(const Statistics& s, Writer& w) {
  VisitStatistics(s, [&](uint32_t field, const std::optional<double>& value) {
    if (value.has_value()) w.DoubleField(field, *value);
  });
  if (!s.quantiles.empty()) {
    w.Length(9, s.quantiles.size() * sizeof(double));
    w.Raw(s.quantiles.data(), s.quantiles.size() * sizeof(double));
  }
}

// --- Packed fields

size_t PackedSize(size_t size) { return size == 0 ? 0 : LengthFieldSize(size); }

template <typename Number>
size_t VarintsSize(const std::vector<Number>& numbers) {
  size_t size = 0;
  for (const Number number : numbers) size += VarintSize(number);
  return size;
}

template <typename Number>
void WriteVarints(uint32_t field, const std::vector<Number>& numbers, size_t size, Writer& w) {
  w.Length(field, size);
  for (const Number number : numbers) w.Varint(number);
}

bool AllZero(const std::vector<uint64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](uint64_t n) { return n == 0; });
}

// Calls visit(field, column) for the columns of a RowAnswers that are sent: first those of whole
// numbers, then those of doubles. Fields are numbered in the order of RowColumns.
template <typename Visit>
void VisitNumbers(const RowColumns& rows, Visit&& visit) {
  uint32_t field = v1::RowAnswers::kCountsFieldNumber;
  for (const auto column : RowColumns::kWhole) {
    const bool always = field <= v1::RowAnswers::kSamplesFieldNumber;
    if (always || !AllZero(rows.*column)) visit(field, rows.*column);
    ++field;
  }
}
template <typename Visit>
void VisitDoubles(const RowColumns& rows, Visit&& visit) {
  uint32_t field = v1::RowAnswers::kMinimumFieldNumber;
  for (const auto column : RowColumns::kReal) {
    if (!(rows.*column).empty()) visit(field, rows.*column);
    ++field;
  }
}

// A length-delimited field whose tag takes as many bytes as it needs.
size_t RowFieldSize(uint32_t field, size_t size) {
  return VarintSize(uint64_t{field} << 3) + VarintSize(size) + size;
}

size_t RowsSize(const RowColumns& rows) {
  size_t size = VarintFieldSize(rows.row_count) + VarintFieldSize(rows.bin_count);
  VisitNumbers(rows, [&](uint32_t field, const std::vector<uint64_t>& column) {
    if (!column.empty()) size += RowFieldSize(field, VarintsSize(column));
  });
  VisitDoubles(rows, [&](uint32_t field, const std::vector<double>& column) {
    size += RowFieldSize(field, column.size() * sizeof(double));
  });
  return size;
}

void WriteRows(const RowColumns& rows, Writer& w) {
  w.VarintField(1, rows.row_count);
  w.VarintField(2, rows.bin_count);
  VisitNumbers(rows, [&](uint32_t field, const std::vector<uint64_t>& column) {
    if (!column.empty()) WriteVarints(field, column, VarintsSize(column), w);
  });
  VisitDoubles(rows, [&](uint32_t field, const std::vector<double>& column) {
    w.Length(field, column.size() * sizeof(double));
    w.Raw(column.data(), column.size() * sizeof(double));
  });
}

size_t StringFieldSize(std::string_view text) {
  return text.empty() ? 0 : LengthFieldSize(text.size());
}

void WriteString(uint32_t field, std::string_view text, Writer& w) {
  if (text.empty()) return;
  w.Length(field, text.size());
  w.Raw(text.data(), text.size());
}

size_t ReceiptSize(const Receipt& r) {
  return StringFieldSize(r.batch.backend) + StringFieldSize(r.batch.kernel) +
         VarintFieldSize(r.batch.payloads) + VarintFieldSize(r.queue_ns) +
         VarintFieldSize(r.batch.gather_ns) + VarintFieldSize(r.batch.transfer_ns) +
         VarintFieldSize(r.batch.kernel_ns) + VarintFieldSize(r.total_ns);
}

void WriteReceipt(const Receipt& r, Writer& w) {
  WriteString(1, r.batch.backend, w);
  WriteString(2, r.batch.kernel, w);
  w.VarintField(3, r.batch.payloads);
  w.VarintField(4, r.queue_ns);
  w.VarintField(5, r.batch.gather_ns);
  w.VarintField(6, r.batch.transfer_ns);
  w.VarintField(7, r.batch.kernel_ns);
  w.VarintField(8, r.total_ns);
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

}  // namespace

ReplyEncoder::ReplyEncoder(Kind kind, const Answer& answer, bool omit_counts)
    : kind_(kind), answer_(answer) {
  const Histogram& h = answer.histogram;
  const bool no_counts = omit_counts || answer.rows != nullptr;
  counts_size_ = no_counts ? 0 : answer.counts().size() * sizeof(uint64_t);
  if (!no_counts) bins_size_ = VarintsSize(answer.bins);
  histogram_size_ = (counts_size_ == 0 ? 0 : LengthFieldSize(counts_size_)) +
                    VarintFieldSize(h.samples) + VarintFieldSize(h.below) +
                    VarintFieldSize(h.above) + VarintFieldSize(h.ignored) + VarintFieldSize(h.nan) +
                    PackedSize(bins_size_);
  if (answer.statistics.has_value()) {
    statistics_size_ = StatisticsSize(*answer.statistics);
    histogram_size_ += LengthFieldSize(statistics_size_);
  }
  if (!answer.edges.empty()) {
    histogram_size_ += LengthFieldSize(answer.edges.size() * sizeof(double));
  }
  receipt_size_ = ReceiptSize(answer.receipt);
  response_size_ = LengthFieldSize(histogram_size_) + LengthFieldSize(receipt_size_);
  if (answer.rows != nullptr) {
    rows_size_ = RowsSize(*answer.rows);
    // ComputeResponse.rows and AccumulateResponse.rows have tags of one byte.
    response_size_ += LengthFieldSize(rows_size_);
  }
  size_ = response_size_;
}

ReplyEncoder ReplyEncoder::ComputeResponse(const Answer& answer, bool omit_counts) {
  return {Kind::kCompute, answer, omit_counts};
}

ReplyEncoder ReplyEncoder::ComputeManyResponse(const Answer& answer, bool omit_counts,
                                               uint64_t request_id) {
  ReplyEncoder encoder(Kind::kComputeMany, answer, omit_counts);
  encoder.request_id_ = request_id;
  encoder.size_ = VarintFieldSize(request_id) + LengthFieldSize(encoder.response_size_);
  return encoder;
}

ReplyEncoder ReplyEncoder::AccumulateResponse(const Answer& answer, bool omit_counts, bool final,
                                              uint64_t chunks) {
  ReplyEncoder encoder(Kind::kAccumulate, answer, omit_counts);
  encoder.final_ = final;
  encoder.chunks_ = chunks;
  encoder.size_ += VarintFieldSize(final ? 1 : 0) + VarintFieldSize(chunks);
  return encoder;
}

uint8_t* ReplyEncoder::Write(uint8_t* out) const {
  Writer w(out);
  if (kind_ == Kind::kComputeMany) {
    w.VarintField(1, request_id_);
    w.Length(2, response_size_);
  }
  const Histogram& h = answer_.histogram;
  w.Length(1, histogram_size_);
  if (counts_size_ != 0) {
    w.Length(1, counts_size_);
    w.Raw(answer_.counts().data(), counts_size_);
  }
  w.VarintField(2, h.samples);
  w.VarintField(3, h.below);
  w.VarintField(4, h.above);
  w.VarintField(5, h.ignored);
  if (answer_.statistics.has_value()) {
    w.Length(6, statistics_size_);
    WriteStatistics(*answer_.statistics, w);
  }
  if (!answer_.edges.empty()) {
    w.Length(7, answer_.edges.size() * sizeof(double));
    w.Raw(answer_.edges.data(), answer_.edges.size() * sizeof(double));
  }
  w.VarintField(8, h.nan);
  if (bins_size_ != 0) WriteVarints(9, answer_.bins, bins_size_, w);
  w.Length(2, receipt_size_);
  WriteReceipt(answer_.receipt, w);
  if (answer_.rows != nullptr && kind_ != Kind::kAccumulate) {
    w.Length(3, rows_size_);
    WriteRows(*answer_.rows, w);
  }
  if (kind_ == Kind::kAccumulate) {
    w.VarintField(3, final_ ? 1 : 0);
    w.VarintField(4, chunks_);
    if (answer_.rows != nullptr) {
      w.Length(5, rows_size_);
      WriteRows(*answer_.rows, w);
    }
  }
  return w.position();
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

}  // namespace histogram::server
