#include "kernels/error.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace histogram {
namespace {

TEST(ErrorTest, CarriesEveryPart) {
  const ErrorDetail detail{.reason = "QUEUE_FULL",
                           .field = "spec.binning.even.bin_count",
                           .limit = UINT64_MAX,
                           .retry_after_ms = 250};
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, "the queue is full", detail);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the queue is full");
  EXPECT_EQ(GetErrorDetail(status), detail);
}

TEST(ErrorTest, AbsentPartsStayAbsent) {
  const ErrorDetail empty;
  EXPECT_EQ(GetErrorDetail(MakeError(absl::StatusCode::kInternal, "", empty)), empty);
  EXPECT_EQ(GetErrorDetail(absl::InternalError("plain")), empty);
  EXPECT_EQ(GetErrorDetail(absl::OkStatus()), empty);
}

TEST(ErrorTest, RetryAfterZeroIsNotAbsent) {
  const absl::Status status =
      MakeError(absl::StatusCode::kUnavailable, "x",
                {.reason = "R", .field = "", .limit = 0, .retry_after_ms = 0});
  ASSERT_TRUE(GetErrorDetail(status).retry_after_ms.has_value());
  EXPECT_EQ(*GetErrorDetail(status).retry_after_ms, 0U);
}

TEST(ErrorTest, AnyTextSurvives) {
  const ErrorDetail detail{
      .reason = "- 1 2\n", .field = std::string("a\0b\n- ", 6), .limit = 0, .retry_after_ms = {}};
  EXPECT_EQ(GetErrorDetail(MakeError(absl::StatusCode::kInternal, "x", detail)), detail);
}

TEST(ErrorTest, SurvivesACopy) {
  const absl::Status status =
      MakeError(absl::StatusCode::kInvalidArgument, "x",
                {.reason = "BAD", .field = "", .limit = 0, .retry_after_ms = {}});
  const absl::Status copy(status);
  EXPECT_EQ(GetErrorDetail(copy).reason, "BAD");
}

}  // namespace
}  // namespace histogram
