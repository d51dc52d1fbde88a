// Numbers written as text, as a user of the command line sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/count.h"
#include "tests/client/cli_world.h"

namespace histogram::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CountNumbers : public ::testing::Test {
 protected:
  int Run(const std::string& text, std::vector<std::string> options) {
    options.insert(options.begin(), {"count", TestFile("numbers", text), "--format", "json"});
    return world_.Run(options);
  }
  // The counts of the only histogram.
  std::vector<uint64_t> Counts() { return Histogram()["counts"]; }
  nlohmann::json Histogram() { return nlohmann::json::parse(world_.out())["histograms"][0]; }

  World world_;
};

TEST_F(CountNumbers, BlanksCommasAndLineEndsSeparate) {
  ASSERT_EQ(Run("\xEF\xBB\xBF"
                "1 2,3\t4\r\n5,, +6\n\n",
                {"--numbers", "--bins", "2"}),
            0);
  EXPECT_THAT(Counts(), ElementsAre(3, 3));
  EXPECT_EQ(Histogram()["sample_type"], "i64");
}

TEST_F(CountNumbers, IntegersKeepTheirValues) {
  ASSERT_EQ(Run("9223372036854775807 9223372036854775806 -9223372036854775808",
                {"--numbers", "--edges", "-1e19,0,1e19"}),
            0);
  EXPECT_THAT(Counts(), ElementsAre(1, 2));
  ASSERT_EQ(Run("9007199254740993 9007199254740992", {"--numbers", "--bins", "1", "--statistics"}),
            0);
  ASSERT_EQ(Run("18446744073709551615 0", {"--numbers", "--edges", "0,1,2e19"}), 0);
  EXPECT_EQ(Histogram()["sample_type"], "u64");
  EXPECT_THAT(Counts(), ElementsAre(1, 1));
  EXPECT_EQ(Run("9007199254740993 1.5", {"--numbers", "--bins", "1"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("the integer 9007199254740993 is no f64, and '1.5' is no"));
  EXPECT_EQ(Run("-1 18446744073709551615", {"--numbers", "--bins", "1"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("18446744073709551615"));
  EXPECT_EQ(Run("123456789012345678901234567890", {"--numbers", "--bins", "1"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("is no f64"));
}

TEST_F(CountNumbers, IntegersKeepTheirValuesWhateverTheirForm) {
  for (const char* const text : {"9007199254740993e0", "9007199254740993.0", "9.007199254740993E15",
                                 "0.9007199254740993e+16", "90071992547409930e-1"}) {
    const std::string alone(text);
    ASSERT_EQ(Run(alone, {"--numbers", "--edges", "0,9007199254740992,9007199254740994,1e16"}), 0);
    EXPECT_EQ(Histogram()["sample_type"], "i64") << text;
    ASSERT_EQ(Run("-" + alone, {"--numbers", "--edges=-9007199254740992,0"}), 0) << text;
    EXPECT_EQ(Histogram()["below"], 1) << text;
    EXPECT_EQ(Run(alone + " 0.5", {"--numbers", "--bins", "1"}), 1) << text;
    EXPECT_EQ(Run("0.5 " + alone, {"--numbers", "--bins", "1"}), 1) << text;
    EXPECT_THAT(world_.err(), HasSubstr("is no f64")) << text;
    EXPECT_EQ(Run("1", {"--numbers", absl::StrCat("--edges=0,", text)}), 2) << text;
    EXPECT_THAT(world_.err(), HasSubstr("is no double; the nearest is 9007199254740992"));
  }
  // Programs write doubles so.
  EXPECT_EQ(Run("0.5 1e23 1.2345678901234568e+18 1.7976931348623157e308 -9e15",
                {"--numbers", "--edges", "-1e23,0,9.223372036854776e+18,1e23"}),
            0);
  EXPECT_THAT(Counts(), ElementsAre(1, 2, 1));
}

TEST_F(CountNumbers, AnyFiniteNumbersHaveARange) {
  ASSERT_EQ(Run("-1.7e308 1.7e308", {"--numbers", "--bins", "2"}), 0) << world_.err();
  EXPECT_THAT(Counts(), ElementsAre(1, 1));
  ASSERT_EQ(Run("1 -1", {"--numbers", "--bins", "2", "--range=-1.7e308:1.7e308"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(1, 1));
  for (const char* const text : {"1e17", "1.7976931348623157e308", "9223372036854775807",
                                 "18446744073709551614 18446744073709551615", "-1e300 -1e300"}) {
    ASSERT_EQ(Run(text, {"--numbers"}), 0) << text << world_.err();
    EXPECT_EQ(Histogram()["below"], 0) << text;
    EXPECT_EQ(Histogram()["above"], 0) << text;
  }
}

TEST_F(CountNumbers, RealsAreRoundedOnce) {
  // Each text lies in the bin that begins with the literal that the compiler reads.
  ASSERT_EQ(Run("0.1 .3 2.5e-3 7.0000000000000001 0.30000000000000004 1e-400 nan -inf",
                {"--numbers", "--edges", "0,2.5e-3,0.1,0.3,0.30000000000000004,7,8"}),
            0);
  EXPECT_THAT(Counts(), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_EQ(Histogram()["nan"], 1);
  EXPECT_EQ(Histogram()["below"], 1);
  EXPECT_EQ(Run("1e400", {"--numbers", "--bins", "1"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("'1e400' is beyond the greatest f64"));
}

TEST_F(CountNumbers, SaysWhereSomethingIsNoNumber) {
  for (const char* const text :
       {"x", "1x", "0x10", "1_000", "+-1", "--1", "1.2.3", ".", "-", "1e"}) {
    EXPECT_EQ(Run(absl::StrCat("1 2\n3 ", text, " 4\n"), {"--numbers", "--bins", "2"}), 1) << text;
    EXPECT_THAT(world_.err(), HasSubstr(absl::StrCat("line 2: '", text, "' is not a number")));
  }
}

TEST_F(CountNumbers, NumbersMayLieOverBlocks) {
  std::string text;
  for (int i = 0; i < 400'000; ++i) absl::StrAppend(&text, i, i % 10 == 9 ? "\n" : " ");
  ASSERT_GT(text.size(), size_t{2} << 20);
  ASSERT_EQ(Run(text, {"--numbers", "--bins", "4"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(100'000, 100'000, 100'000, 100'000));
  ASSERT_EQ(Run(text + "?", {"--numbers", "--bins", "4"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 40001: '?' is not a number"));
}

TEST_F(CountNumbers, AColumnByNameOrNumber) {
  const std::string table =
      "name,\"the, price\",n\r\n\"a \"\"b\"\"\",1.5,1\r\nc,\"2.5\",2\r\n\r\nd,,3\r\n";
  ASSERT_EQ(Run(table, {"--column", "the, price", "--bins", "2"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(1, 1));
  EXPECT_EQ(Histogram()["nan"], 1);
  ASSERT_EQ(Run(table, {"--column", "3", "--bins", "2"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(1, 2));
  EXPECT_EQ(Histogram()["sample_type"], "i64");
  EXPECT_EQ(Run(table, {"--column", "cost"}), 2);
  EXPECT_THAT(world_.err(),
              AllOf(HasSubstr("there is no 'cost'"), HasSubstr("name, the, price, n")));
  EXPECT_EQ(Run(table, {"--column", "name"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 2: 'a \"b\"' is not a number"));
}

TEST_F(CountNumbers, QuotesMayEncloseWhatPartsRowsAndCells) {
  ASSERT_EQ(Run("a,b\n\"x,\ny\r\n\"\"\",2\n5\" pipe,\"4\"\n", {"--column", "b", "--bins", "2"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(1, 1));
  EXPECT_EQ(Histogram()["samples"], 2);
  EXPECT_EQ(Run("a,b\n1,2\n\"x,3\ny,4\n", {"--column", "b", "--bins", "2"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 3: a quote is not closed"));
  EXPECT_EQ(Run("a,b\n\"x\ny\",2\n1,\"3\"z\n", {"--column", "b", "--bins", "2"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 4: '3z' is not a number"));
  // Over blocks, too.
  std::string text = "a,b\n";
  for (int i = 0; i < 200'000; ++i) absl::StrAppend(&text, "\"x\n, \",", i, "\n");
  ASSERT_GT(text.size(), size_t{2} << 20);
  ASSERT_EQ(Run(text, {"--column", "b", "--bins", "2"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(100'000, 100'000));
}

TEST_F(CountNumbers, ATableHasAHeaderAndLines) {
  for (const char* const text : {"", "\n\r\n"}) {
    EXPECT_EQ(Run(text, {"--column", "a"}), 1);
    EXPECT_THAT(world_.err(), HasSubstr("there is no header"));
  }
  EXPECT_EQ(Run("a,b\r1,2\r3,4\r", {"--column", "a"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("the lines end in CR alone"));
  EXPECT_EQ(Run(std::string(5000, 'x') + ",b\n1,2\n", {"--column", "a"}), 2);
  EXPECT_LT(world_.err().size(), 500);
}

TEST_F(CountNumbers, NotANumberHasManyForms) {
  ASSERT_EQ(Run("nan -NaN nan(1) -nan(ind) inf", {"--numbers", "--bins", "2"}), 0);
  EXPECT_EQ(Histogram()["sample_type"], "f64");
  EXPECT_EQ(Histogram()["nan"], 4);
  EXPECT_EQ(Histogram()["above"], 1);
}

TEST_F(CountNumbers, RowsHaveTheCellsOfTheHeader) {
  EXPECT_EQ(Run("a,b\n1,2,\n1,000,3\n", {"--column", "b", "--bins", "2"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 3: the row has more cells than the 2 of the header"));
  ASSERT_EQ(Run("a,b,\n1,2,3\n \n4\n", {"--column", "3", "--bins", "1"}), 0);
  EXPECT_THAT(Counts(), ElementsAre(1));
  EXPECT_EQ(Histogram()["nan"], 1);  // the row that is too short, and not the blank one
  EXPECT_EQ(Run("a,a\n1,2\n", {"--column", "a"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("the header has 'a' 2 times; say the column's number"));
  EXPECT_EQ(Run("a\n1\n", {"--column", "b"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("the header has 1 column: a"));
  for (const char* const text :
       {"a\tb c\n1\t2\n\t\n", "a;b c\n1;2\n;\n", "\"a,\t\";b c\n1;2\n;\n"}) {
    ASSERT_EQ(Run(text, {"--column", "b c", "--bins", "1"}), 0) << text;
    EXPECT_THAT(Counts(), ElementsAre(1));
    EXPECT_EQ(Histogram()["nan"], 1) << text;  // the row of empty cells
  }
}

TEST_F(CountNumbers, StatisticsAreThoseOfWhatIsInRange) {
  ASSERT_EQ(Run("1e-300 1e-300", {"--numbers", "--statistics"}), 0);
  EXPECT_EQ(Histogram()["statistics"]["mean"], 1e-300);
  ASSERT_EQ(Run("5 nan", {"--numbers", "--bins", "1", "--range", "0:1", "--statistics"}), 0);
  EXPECT_EQ(world_.err(), "");
}

TEST_F(CountNumbers, AHeaderThatLooksLikeSamplesIsSaid) {
  for (const char* const column : {"1", "2"}) {
    ASSERT_EQ(Run("1,20\n3,40\n", {"--column", column, "--bins", "1"}), 0);
    EXPECT_THAT(Counts(), ElementsAre(1));
    EXPECT_THAT(world_.err(), HasSubstr("its first line is taken for the header"));
  }
  ASSERT_EQ(Run("a,20\n3,40\n", {"--column", "1", "--bins", "1"}), 0);
  EXPECT_EQ(world_.err(), "");
  EXPECT_EQ(Run("price\n1\n2\n", {"--numbers"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("line 1: 'price' is not a number; --column NAME"));
  EXPECT_EQ(world_.Run({"--numbers", "missing"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("cannot open missing"));
}

TEST_F(CountNumbers, OtherEncodingsAreNamed) {
  for (const char* const option : {"--numbers", "--column=1"}) {
    EXPECT_EQ(Run(std::string("\xFF\xFE"
                              "1\0\n\0",
                              6),
                  {option}),
              1);
    EXPECT_THAT(world_.err(), HasSubstr("the text is UTF-16; make it UTF-8"));
    EXPECT_EQ(Run({"\x1F\x8B\x08\0\0", 5}, {option}), 1);
    EXPECT_THAT(world_.err(), HasSubstr("no text but binary, compressed or UTF-16"));
    EXPECT_EQ(Run("\x93NUMPY\x01", {option}), 1);
    EXPECT_THAT(world_.err(), HasSubstr("a .npy file is no text; leave out --numbers"));
  }
}

TEST_F(CountNumbers, OfBytesThatLookLikeNumbersANoteIsGiven) {
  ASSERT_EQ(Run("1\n2\n3\n4\n5\n", {"--bins", "2"}), 0);
  EXPECT_THAT(world_.err(), HasSubstr("its bytes are counted; --numbers counts the numbers"));
  ASSERT_EQ(world_.Run({"count", TestFile("table.csv", "a,b\n1,2\n")}), 0);
  EXPECT_THAT(world_.err(), HasSubstr("--column NAME"));
  ASSERT_EQ(world_.Run({"count", TestFile("table.tsv", "a\tb\n1\t2\n")}), 0);
  EXPECT_THAT(world_.err(), HasSubstr("--column NAME"));
  for (const char* const text : {"words and 1 2 3\n", "1234567"}) {  // a key, or one number
    ASSERT_EQ(Run(text, {"--bins", "2"}), 0);
    EXPECT_EQ(world_.err(), "");
  }
  ASSERT_EQ(Run("1\n2\n3\n4\n5\n", {"--type", "u8"}), 0);
  EXPECT_EQ(world_.err(), "");
}

TEST(LooksLikeNumbers, TellsNumbersFromText) {
  EXPECT_TRUE(
      LooksLikeNumbers("\xEF\xBB\xBF"
                       "1\n2\n3\n"));
  EXPECT_TRUE(LooksLikeNumbers("-1.5e3, +2\n"));
  EXPECT_FALSE(LooksLikeNumbers(" \n"));
  EXPECT_FALSE(LooksLikeNumbers(""));
}

}  // namespace
}  // namespace histogram::cli
