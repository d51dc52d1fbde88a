#include "client/status.h"

#include <histogram/client.h>
#include <histogram/sample_type.h>

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace histogram::client {
namespace {

constexpr absl::string_view kDetailUrl = "type.googleapis.com/histogram.v1.Error";
constexpr char kDetailTrailer[] = "histogram-error-bin";

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
