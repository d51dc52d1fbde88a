// Errors carry their detail, and a Result without a value says why.
#include "kernels/error.h"

#include <histogram/binning.h>
#include <histogram/result.h>

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace histogram {
namespace {

TEST(ErrorTest, CarriesEveryPartAndAnyText) {
  for (const ErrorDetail& detail :
       {ErrorDetail{}, ErrorDetail{.reason = "- 1 2\n", .field = std::string("a\0b\n- ", 6)},
        ErrorDetail{.reason = "QUEUE_FULL",
        .field = "spec.binning.even.bin_count",
        .limit = UINT64_MAX,
        .retry_after_ms = 250},
        ErrorDetail{.reason = "R", .retry_after_ms = 0}}) {
    const absl::Status copy(MakeError(absl::StatusCode::kResourceExhausted, "full", detail));
    EXPECT_EQ(copy.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(copy.message(), "full");
    EXPECT_EQ(GetErrorDetail(copy), detail);
  }
  EXPECT_EQ(GetErrorDetail(absl::InternalError("plain")), ErrorDetail{});
  EXPECT_EQ(GetErrorDetail(absl::OkStatus()), ErrorDetail{});
}

TEST(ResultDeathTest, AValueThatIsNotThereEndsTheProcessWithTheReason) {
  const Result<Binning> result = Binning::Even(0, {}, {});
  EXPECT_DEATH(static_cast<void>(*result), "asked for: even.bin_count is 0");
}

}  // namespace
}  // namespace histogram
