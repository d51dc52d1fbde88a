// Checks of option values, and suggestions.
#include "client/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forms/nearest.h"

namespace histogram::cli {
namespace {

using ::testing::ElementsAre;

TEST(Nearest, FindsWhatWasMistyped) {
  const std::vector<std::string> names = {"--statistics", "--server", "--rows", "--range"};
  EXPECT_EQ(Nearest("--statistic", names), "--statistics");
  EXPECT_EQ(Nearest("--sevrer", names), "--server");
  EXPECT_EQ(Nearest("--row", names), "--rows");
  EXPECT_EQ(Nearest("--stats", names), "--statistics");
  EXPECT_EQ(Nearest("--frobnicate", names), "");
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest("x", {}), "");
  EXPECT_EQ(Nearest(std::string(100000, '-'), names), "");
}

TEST(OptionChecks, SayWhatAValueMustBe) {
  EXPECT_EQ(Number(/*zero_too=*/false)("0.5"), "");
  EXPECT_EQ(Number(/*zero_too=*/false)("0"), "must be a number > 0, not \"0\"");
  EXPECT_EQ(Number(/*zero_too=*/false)("inf"), "must be a number > 0, not \"inf\"");
  EXPECT_EQ(Number(/*zero_too=*/false)("2s"), "must be a number > 0, not \"2s\"");
  EXPECT_EQ(Number(/*zero_too=*/true)("0"), "");
  EXPECT_EQ(Number(/*zero_too=*/true)("-1"), "must be a number >= 0, not \"-1\"");
  EXPECT_EQ(WholeNumber(1, 9)("9"), "");
  EXPECT_EQ(WholeNumber(1, 9)("10"), "must be a whole number from 1 to 9, not \"10\"");
  EXPECT_EQ(WholeNumber(1, 9)("-1"), "must be a whole number from 1 to 9, not \"-1\"");
  EXPECT_EQ(OneOf({"a", "b", "c"})("c"), "");
  EXPECT_EQ(OneOf({"a", "b", "c"})("d"), "must be a, b or c, not \"d\"");
}

TEST(ListedValues, AreTheWordsOfATypesName) {
  CLI::App app;
  const auto listed = [&](const std::string& name) {
    return ListedValues(*app.add_option("--" + name)->type_name(name));
  };
  EXPECT_THAT(listed("table|json"), ElementsAre("table", "json"));
  EXPECT_THAT(listed("N|all"), ElementsAre("all"));
  EXPECT_THAT(listed("liveness|histogram.v1.X|backend/NAME"),
              ElementsAre("liveness", "histogram.v1.X"));
  EXPECT_THAT(listed("FILE"), ElementsAre());
}

}  // namespace
}  // namespace histogram::cli
