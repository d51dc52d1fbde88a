// What the formats look like, and that programs can read those meant for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/report.h"
#include "client/cli/render/svg.h"
#include "client/cli/render/text.h"
#include "forms/json.h"
#include "tests/client/fake_server.h"

namespace histogram::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Report ReportOf(const v1::Spec& spec, const std::string& bytes, const std::string& name = "file") {
  Report report = {name, spec, client::AnswerOf(spec, bytes)};
  report.receipt.set_backend("cpu");
  report.receipt.set_kernel("plain");
  report.receipt.set_total_ns(1500);
  return report;
}

v1::Spec Alphabet(uint32_t first, uint32_t count, uint32_t per_bin) {
  v1::Spec spec;
  auto& alphabet = *spec.mutable_binning()->mutable_alphabet();
  alphabet.set_first_symbol(first);
  alphabet.set_symbol_count(count);
  alphabet.set_symbols_per_bin(per_bin);
  return spec;
}

v1::Spec Even(uint32_t bins, double lower, double upper) {
  v1::Spec spec;
  spec.mutable_binning()->mutable_even()->set_bin_count(bins);
  spec.mutable_binning()->mutable_even()->set_lower(lower);
  spec.mutable_binning()->mutable_even()->set_upper(upper);
  spec.set_edges(true);
  return spec;
}

std::string AllBytes() {
  std::string bytes;
  for (int value = 0; value < 256; ++value) bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

TEST(Text, Numbers) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(~uint64_t{0}), "18,446,744,073,709,551,615");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1048575), "1.00 MiB");  // not 1024 KiB
  EXPECT_EQ(FormatBytes(uint64_t{64} << 20), "64.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 30), "5.00 GiB");
  EXPECT_EQ(FormatRate(1.25e9), "1.25 GB/s");
  EXPECT_EQ(FormatShare(1, 3), "33.33 %");
  EXPECT_EQ(FormatShare(0, 0), "-");
  EXPECT_EQ(FormatNanoseconds(999), "999 ns");
  EXPECT_EQ(FormatNanoseconds(1500), "1.50 µs");
}

TEST(Text, NothingUnsafeIsShown) {
  EXPECT_EQ(SafeText("plain äöü €😀"), "plain äöü €😀");
  EXPECT_EQ(SafeText("a\nb\tc"), "a b c");
  EXPECT_EQ(SafeText("\x1b[31m"), "\uFFFD[31m");
  EXPECT_EQ(SafeText("\xff\xfe"), "\uFFFD\uFFFD");
  EXPECT_EQ(SafeText("\xc3"), "\uFFFD");                      // cut off
  EXPECT_EQ(SafeText("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(SafeText("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(SafeText("\u202egpj"), "\uFFFD\uFFFD\uFFFDgpj");  // right-to-left override
}

TEST(Text, WidthsCountCharacters) {
  EXPECT_EQ(DisplayWidth("äö█"), 3);
  EXPECT_EQ(PadLeft("ä", 3), "  ä");
  EXPECT_EQ(PadRight("ä", 3), "ä  ");
  EXPECT_EQ(Truncate("äöüabc", 4), "äöü…");
  EXPECT_EQ(Truncate("abc", 3), "abc");
  EXPECT_EQ(Wrap({"aaaa", "bbbb", "cccc"}, 13), "  aaaa, bbbb,\n  cccc\n");
  EXPECT_EQ(Wrap({"a", "long enough to break", "c"}, 13), "  a, long\n  enough to\n  break, c\n");
}

TEST(Labels, AreReadable) {
  EXPECT_EQ(ValueLabel('a'), "97 'a'");
  EXPECT_EQ(ValueLabel(' '), "32 ' '");
  EXPECT_EQ(ValueLabel('\n'), "10 \\n");
  EXPECT_EQ(ValueLabel(200), "200");
  const auto label = [](const Report& report, size_t first, size_t last) {
    return BinLabel(report, EdgesOf(report), first, last);
  };
  const Report values = ReportOf({}, "x");
  EXPECT_EQ(label(values, 97, 97), "97 'a'");
  EXPECT_EQ(label(values, 255, 255), "255");
  EXPECT_EQ(label(values, 0, 15), "[0,16)");
  const Report letters = ReportOf(Alphabet('a', 26, 6), "x");
  EXPECT_EQ(label(letters, 0, 0), "a-f");
  EXPECT_EQ(label(letters, 4, 4), "y-z");
  EXPECT_EQ(label(ReportOf(Alphabet('a', 3, 2), "x"), 1, 1), "c");
  EXPECT_EQ(label(ReportOf(Alphabet(0, 4, 2), "x"), 1, 1), "2-3");
  EXPECT_EQ(label(ReportOf(Even(16, 0, 256), "x"), 0, 0), "[0,16)");
  EXPECT_EQ(label(ReportOf(Even(16, 0, 256), "x"), 15, 15), "[240,256]");
  // The last bin holds 2 and 3.
  EXPECT_EQ(label(ReportOf(Even(3, 0, 3), "x"), 2, 2), "[2,3]");
  EXPECT_EQ(label(ReportOf(Even(3, 0, 3), "x"), 1, 1), "1");
  // Of neighbouring edges all digits are shown that differ.
  EXPECT_EQ(label(ReportOf(Even(2, 1e18, 1e18 + 512), "x"), 1, 1),
            "[1000000000000000256,1000000000000000512]");
}

TEST(Bars, HaveTheRightLength) {
  EXPECT_EQ(Bar(1, 4), "████");
  EXPECT_EQ(Bar(0.5, 4), "██");
  EXPECT_EQ(Bar(0.53125, 4), "██▏");
  EXPECT_EQ(Bar(1e-9, 4), "▏");  // something is something
  EXPECT_EQ(Bar(0, 4), "");
  EXPECT_EQ(Bar(1, 0), "");
}

TEST(Table, NoLineIsWiderThanTheTerminal) {
  v1::Spec spec;
  spec.set_statistics(true);
  const Report reports[] = {ReportOf(spec, AllBytes()),
                            ReportOf(Alphabet('a', 26, 6), "hello world"), ReportOf(spec, "")};
  for (const Report& report : reports) {
    for (const size_t columns : {40, 41, 60, 80, 119, 120, 200}) {
      for (const std::string& line : Lines(RenderTable(report, columns, 0))) {
        EXPECT_LE(DisplayWidth(line), columns) << line;
      }
    }
  }
}

TEST(Table, ShowsEachBin) {
  const std::string table = RenderTable(ReportOf(Alphabet('a', 26, 6), "aabz!"), 80);
  EXPECT_THAT(table, HasSubstr("file: 5 bytes, 5 bins"));
  EXPECT_THAT(table, HasSubstr("\n  a-f          3  60.00 %  ██████████"));
  EXPECT_THAT(table, HasSubstr("\n  g-l          0   0.00 %\n"));
  EXPECT_THAT(table, HasSubstr("\n  ignored      1  20.00 %\n"));
  EXPECT_THAT(table, HasSubstr("plain on cpu: server 1.50 µs"));
}

TEST(Table, OneIsNoPlural) {
  EXPECT_THAT(RenderTable(ReportOf(Even(1, 0, 256), "a"), 80), HasSubstr("file: 1 byte, 1 bin\n"));
  EXPECT_THAT(RenderSvg({PanelOf(ReportOf(Even(1, 0, 256), "a"))}), HasSubstr(">1 byte, 1 bin<"));
  Report report = ReportOf(Even(2, 0, 256), "a");
  report.spec.set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
  EXPECT_EQ(SamplesText(report), "1 f32 sample");
}

TEST(Table, FoldsEmptyBins) {
  const std::string table = RenderTable(ReportOf({}, "az"), 80);
  EXPECT_THAT(table, HasSubstr("97 empty"));   // 0..96
  EXPECT_THAT(table, HasSubstr("24 empty"));   // b..y
  EXPECT_THAT(table, HasSubstr("133 empty"));  // 123..255
  EXPECT_LT(Lines(table).size(), 15);
  EXPECT_THAT(RenderTable(ReportOf({}, "az"), 80, 0), Not(HasSubstr("empty")));
}

TEST(Table, PutsBinsTogetherWhereThereAreMany) {
  const Report report = ReportOf({}, AllBytes());
  const std::string table = RenderTable(report, 80);
  EXPECT_THAT(table, HasSubstr("[248,256)"));
  EXPECT_THAT(table, HasSubstr("bins are shown 8 to a row"));
  EXPECT_EQ(Lines(table).size(), 3 + 32 + 3);
  EXPECT_EQ(Lines(RenderTable(report, 80, 4)).size(), 3 + 4 + 3);
  EXPECT_EQ(Lines(RenderTable(report, 80, 1)).size(), 3 + 1 + 3);
  EXPECT_EQ(Lines(RenderTable(report, 80, 0)).size(), 3 + 256 + 2);
}

TEST(Terminal, IsAsWideAsColumnsSays) {
  const auto columns_for = [](const char* value) {
    setenv("COLUMNS", value, 1);
    const size_t columns = ColumnsOf(-1);
    unsetenv("COLUMNS");
    return columns;
  };
  EXPECT_EQ(columns_for("123"), 123);
  EXPECT_EQ(columns_for("3"), 20);
  for (const char* const bad : {"", "0", "-5", "x"}) EXPECT_EQ(columns_for(bad), 80) << bad;
}

TEST(Json, HasTheSchemaAndTheEdges) {
  v1::Spec spec = Even(2, 0, 100);
  spec.set_statistics(true);
  spec.add_quantiles(0.5);
  const auto json = nlohmann::json::parse(Dump(ReportsToJson({ReportOf(spec, "\x01zz\xff")})));
  EXPECT_EQ(json["schema"], "histogram/v1");
  ASSERT_EQ(json["histograms"].size(), 1);
  const auto& histogram = json["histograms"][0];
  EXPECT_EQ(histogram["source"], "file");
  EXPECT_EQ(histogram["binning"], "even");
  EXPECT_EQ(histogram["edges"], nlohmann::json({0.0, 50.0, 100.0}));
  EXPECT_EQ(histogram["last_edge_closed"], true);
  EXPECT_EQ(histogram["counts"], nlohmann::json({1, 0}));
  EXPECT_EQ(histogram["samples"], 4);
  EXPECT_EQ(histogram["above"], 3);
  EXPECT_EQ(histogram["statistics"]["quantiles"], nlohmann::json({1.0}));
  EXPECT_EQ(histogram["receipt"]["kernel"], "plain");
}

TEST(Json, AnyFileNameIsValid) {
  const auto json = nlohmann::json::parse(Dump(ReportsToJson({ReportOf({}, "", "\xff\"\\\x01")})));
  EXPECT_EQ(json["histograms"][0]["source"], "\uFFFD\"\\\uFFFD");
  EXPECT_EQ(json["histograms"][0]["edges"].size(), 257);
}

TEST(Csv, AddsUpAndQuotes) {
  const std::string csv = ReportsToCsv({ReportOf(Alphabet('a', 4, 2), "abd!", "a,\"b")});
  EXPECT_EQ(csv,
            "source,bin,lower,upper,count\n"
            "\"a,\"\"b\",0,97.0,99.0,2\n"
            "\"a,\"\"b\",1,99.0,101.0,1\n"
            "\"a,\"\"b\",below,,,0\n"
            "\"a,\"\"b\",above,,,0\n"
            "\"a,\"\"b\",ignored,,,1\n");
}

// Where each bar of a picture of one series begins and ends.
std::vector<std::pair<double, double>> Bars(const std::string& svg) {
  std::vector<std::pair<double, double>> bars;
  const size_t begin = svg.find("<path d=\"") + 9;
  const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
  for (const absl::string_view bar : absl::StrSplit(path, 'Z', absl::SkipEmpty())) {
    double left = 0, right = 0;
    EXPECT_EQ(sscanf(std::string(bar).c_str(), "M%lf %*fV%*fH%lf", &left, &right), 2) << bar;
    bars.emplace_back(left, right);
  }
  return bars;
}

TEST(Svg, HasTitleAxesAndBars) {
  const std::string svg = RenderSvg({PanelOf(ReportOf({}, "aab", "/some/where/file.txt"))});
  EXPECT_THAT(svg, HasSubstr(">file.txt</text>"));
  EXPECT_THAT(svg, HasSubstr(">byte value</text>"));
  EXPECT_THAT(svg, HasSubstr(">count</text>"));
  EXPECT_EQ(Bars(svg).size(), 2);
}

TEST(Svg, GroupsOfLettersHaveBarsOfOneWidth) {
  const std::string svg = RenderSvg({PanelOf(ReportOf(Alphabet('a', 26, 6), "ahnsz"))});
  const std::vector<std::pair<double, double>> bars = Bars(svg);
  ASSERT_EQ(bars.size(), 5);
  for (const auto& [left, right] : bars) {
    EXPECT_NEAR(right - left, bars[0].second - bars[0].first, 0.02);
  }
  EXPECT_THAT(svg, HasSubstr(">y-z</text>"));
  EXPECT_THAT(svg, HasSubstr(">symbols</text>"));
}

TEST(Svg, TheAxisSaysWhatIsOnIt) {
  for (const auto& [type, axis, least] :
       {std::tuple{v1::SAMPLE_TYPE_UINT8, ">byte value</text>", 0.0},
        {v1::SAMPLE_TYPE_INT8, ">i8 value</text>", -128.0},
        {v1::SAMPLE_TYPE_FLOAT64, ">f64 value</text>", -0.5}}) {
    v1::Spec spec;
    spec.set_sample_type(type);
    Report report = {"file", spec};
    for (int i = 0; i < 256; ++i) report.histogram.add_counts(1);
    if (type == v1::SAMPLE_TYPE_FLOAT64) {
      for (int i = 0; i <= 256; ++i) report.histogram.add_edges(-0.5 + i / 256.0);
    }
    const Panel panel = PanelOf(report);
    EXPECT_EQ(panel.edges.front(), least);
    EXPECT_THAT(RenderSvg({panel}), HasSubstr(axis));
  }
  Panel widest = PanelOf(ReportOf(Even(2, 0, 2), "ab"));
  widest.edges = {-1.7e308, 0, 1.7e308};
  EXPECT_THAT(RenderSvg({widest}), Not(HasSubstr("nan")));
  EXPECT_THAT(RenderSvg({widest}), Not(HasSubstr("inf")));
}

TEST(Svg, ALongSubtitleIsCutOff) {
  Panel panel = PanelOf(ReportOf({}, "a"));
  panel.subtitle = std::string(200, 'x');
  EXPECT_THAT(RenderSvg({panel}), HasSubstr(absl::StrCat(">", std::string(109, 'x'), "…<")));
}

TEST(Svg, AMillionBinsAreDrawnByTheTallest) {
  Report report = ReportOf(Even(2, 0, 2), "");
  report.histogram.clear_counts();
  report.histogram.clear_edges();
  constexpr int kBins = 1000000;
  for (int i = 0; i < kBins; ++i) report.histogram.add_counts(i == 777777 ? 9 : 4);
  for (int i = 0; i <= kBins; ++i) report.histogram.add_edges(i);
  const std::string svg = RenderSvg({PanelOf(report)});
  EXPECT_LT(svg.size(), 100000);
  EXPECT_THAT(svg, HasSubstr("1,000,000 bins"));
  EXPECT_THAT(svg, HasSubstr("drawn by the tallest of each 489"));
}

TEST(Svg, SaysThatThereIsNothing) {
  EXPECT_THAT(RenderSvg({PanelOf(ReportOf({}, ""))}), HasSubstr(">no samples</text>"));
  EXPECT_THAT(RenderSvg({PanelOf(ReportOf(Alphabet('a', 4, 2), "zz"))}),
              HasSubstr(">no samples in the bins</text>"));
  EXPECT_THAT(RenderSvg({PanelOf(ReportOf({}, "x"))}), Not(HasSubstr("no samples")));
}

TEST(Svg, TicksAreRound) {
  EXPECT_THAT(NiceTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(NiceTicks(0, 28900, 6), ElementsAre(0, 5000, 10000, 15000, 20000, 25000));
  EXPECT_THAT(NiceTicks(0, 0, 6), ElementsAre(0, 1));
  EXPECT_GE(NiceTicks(3.1, 3.2, 10).size(), 2);
}

TEST(ProgressLine, ANameGivesWayToTheRest) {
  EXPECT_EQ(ProgressLine("file", 500'000'000, 1'000'000'000, absl::Seconds(5), 99),
            "file  50 %  477 MiB of 954 MiB  100 MB/s");
  EXPECT_EQ(ProgressLine("-", 5, std::nullopt, absl::Seconds(1), 99), "-  5 B  5 B/s");
  for (const size_t columns : {20, 40, 60, 80, 200}) {
    const std::string line =
        ProgressLine(std::string(100, 'n'), 1 << 28, 1 << 30, absl::Seconds(5), columns);
    EXPECT_LE(DisplayWidth(line), columns);
  }
}

}  // namespace
}  // namespace histogram::cli
