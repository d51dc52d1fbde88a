#include <histogram/result.h>

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace histogram {
namespace {

const Error kError{.code = ErrorCode::kTooManyBins,
                   .message = "even.bin_count asks for 9 bins; the limit is 8",
                   .field = "even.bin_count",
                   .limit = 8};

TEST(ResultTest, HoldsAValue) {
  Result<std::string> result = std::string("value");
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(*result, "value");
  EXPECT_EQ(result->size(), 5U);
  *result += "s";
  EXPECT_EQ(std::as_const(result).value(), "values");
}

TEST(ResultTest, GivesItsValueAway) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, HoldsAnError) {
  const Result<std::string> result = kError;
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(static_cast<bool>(result));
  EXPECT_EQ(result.error(), kError);
}

TEST(ResultDeathTest, AValueThatIsNotThereEndsTheProcessWithTheReason) {
  const Result<std::string> result = kError;
  EXPECT_DEATH(static_cast<void>(*result), "asked for: even.bin_count asks for 9 bins");
}

}  // namespace
}  // namespace histogram
