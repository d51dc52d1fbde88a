// Counting in process, as a user of the command line sees it: no server, the same answers.
#include "client/cli/commands/count.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "client/cli/files.h"
#include "tests/client/cli_world.h"
#include "tests/client/client_testing.h"
#include "tests/client/fake_server.h"
#include "tests/kernels/on_one_core.h"

namespace histogram::cli {
namespace {

using client::FakeServer;
using client::Pattern;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class Count : public ::testing::Test {
 protected:
  nlohmann::json Json() { return nlohmann::json::parse(world_.out()); }
  std::vector<uint64_t> Counts() { return Json()["histograms"][0]["counts"]; }

  World world_;
};

std::vector<uint64_t> Expected(const std::string& bytes) {
  std::vector<uint64_t> counts(256);
  for (const char c : bytes) ++counts[static_cast<unsigned char>(c)];
  return counts;
}

// Standard input that gives `bytes`, from a file.
class Fed {
 public:
  Fed(World& world, const std::string& bytes) : world_(world) {
    world.env().standard_input = open(TestFile("fed", bytes).c_str(), O_RDONLY);
  }
  ~Fed() {
    close(world_.env().standard_input);
    world_.env().standard_input = -1;
  }

 private:
  World& world_;
};

TEST_F(Count, NeedsNoServer) {
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--alphabet", "a:26:6"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("5 bytes, 5 bins"));
  EXPECT_THAT(world_.out(), HasSubstr("scalar in process: "));
  EXPECT_EQ(world_.err(), "");
}

TEST_F(Count, AFileAloneIsCounted) {
  const std::string file = TestFile("in", "hello");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{file},
                                             {file, "--bins", "4"},
                                             {"--bins", "4", file},
                                             {"--bins=4", "--statistics", file},
                                             {"--timeout", "60", file}}) {
    EXPECT_EQ(world_.Run(arguments), 0) << world_.err();
    EXPECT_THAT(world_.out(), HasSubstr("5 bytes, "));
  }
  const std::string brackets = "[a,b]";  // in the working directory: no list of two files
  std::ofstream(brackets) << "hello";
  EXPECT_EQ(world_.Run({brackets}), 0) << world_.err();
  unlink(brackets.c_str());
  EXPECT_EQ(world_.Run({"image"}), 2);  // a command even where a file has its name
}

TEST_F(Count, AFileAtStandardInputAloneIsCounted) {
  {
    const Fed fed(world_, "hello");
    EXPECT_EQ(world_.Run({}), 0) << world_.err();
    EXPECT_THAT(world_.out(), HasSubstr("standard input: 5 bytes, "));
    EXPECT_EQ(world_.Run({"--version"}), 0);
    EXPECT_THAT(world_.out(), Not(HasSubstr("standard input")));
  }
  // A program without a terminal often has this one, and nobody means it to be counted.
  world_.env().standard_input = open("/dev/null", O_RDONLY);
  EXPECT_EQ(world_.Run({}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("name a FILE to count (- is standard input), or a command"));
  close(world_.env().standard_input);
  world_.env().standard_input = -1;
}

TEST_F(Count, AServerCountsWhereOneIsNamed) {
  const FakeServer server;
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--server", server.address()}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("plain on fake"));
  EXPECT_EQ(
      world_.Run({"image", TestFile("in.pgm", "P2 2 1 255 1 2"), "--server", server.address()}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("plain on fake"));
  setenv("HISTSVC_SERVER", server.address().c_str(), 1);
  EXPECT_EQ(world_.Run({"count", file}), 0);
  unsetenv("HISTSVC_SERVER");
  EXPECT_THAT(world_.out(), HasSubstr("plain on fake"));
}

TEST_F(Count, OptionsOfAServerNeedOne) {
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--token-file", file}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("--token-file: needs --server"));
  EXPECT_EQ(world_.Run({"image", file, "--tls"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("--tls: needs --server"));
}

TEST_F(Count, LongFiles) {
  const std::string bytes = Pattern((size_t{20} << 20) + 12345);
  const std::string file = TestFile("in", bytes);
  ASSERT_EQ(world_.Run({"count", file, "--format", "json"}), 0) << world_.err();
  EXPECT_EQ(Counts(), Expected(bytes));
  EXPECT_EQ(Json()["histograms"][0]["samples"], bytes.size());
  const auto receipt = Json()["histograms"][0]["receipt"];
  EXPECT_EQ(receipt["in_process"], true);
  EXPECT_GT(receipt["kernel_ns"], 0);
  EXPECT_EQ(world_.Run({"count", file}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("B/s"));  // the rate
}

TEST_F(Count, NumbersAreDecimal) {
  const std::string file = TestFile("in", "abc");
  for (const char* const bins : {"010", " 10", "10 ", "+10"}) {
    ASSERT_EQ(world_.Run({file, "--bins", bins, "--timeout", "60 ", "--format", "json"}), 0)
        << bins;
    EXPECT_EQ(Counts().size(), 10) << bins;
  }
  ASSERT_EQ(world_.Run({file, "--bins", "09", "--format", "json"}), 0);
  EXPECT_EQ(Counts().size(), 9);
}

TEST_F(Count, AFileIsCountedAsFarAsItsRangeIsKnown) {
  const std::string file = TestFile("growing", std::string("\0\1\0\2\0\3", 6));
  std::vector<Input> inputs = {OpenFile(file)};
  v1::Spec spec;
  spec.set_sample_type(v1::SAMPLE_TYPE_UINT16);
  spec.set_statistics(true);
  ASSERT_TRUE(FindRange(absl::MakeSpan(inputs), spec).ok());
  std::ofstream(file, std::ios::app) << "more";
  ServerOptions here;
  here.in_process = true;
  const auto count = [&] { return (*CountInputs(here, spec, inputs))[0]; };
  ASSERT_TRUE(count().ok()) << count().status();
  EXPECT_EQ(count()->histogram.samples(), 3);
  EXPECT_EQ(count()->histogram.above(), 0);
  ASSERT_EQ(truncate(file.c_str(), 4), 0);  // its last page is still there, and zeros in it
  EXPECT_THAT(std::string(count().status().message()), HasSubstr("was it cut off?"));

  const int descriptor = open(file.c_str(), O_RDONLY);
  inputs = {StandardInput(descriptor)};
  ASSERT_EQ(truncate(file.c_str(), 2), 0);
  EXPECT_THAT(std::string(count().status().message()), HasSubstr("was it cut off?"));
  close(descriptor);
}

TEST_F(Count, TheTimeIsThatOfEachLook) {
  const std::string file = TestFile("in", Pattern(size_t{32} << 20));
  const absl::Time start = absl::Now();
  ASSERT_EQ(world_.Run({"count", file, "--type", "f64", "--bins", "9", "--quantiles", "0.5",
                        "--format", "json"}),
            0)
      << world_.err();
  const int64_t whole = absl::ToInt64Nanoseconds(absl::Now() - start);
  const auto receipt = Json()["histograms"][0]["receipt"];
  EXPECT_GT(receipt["total_ns"], whole * 2 / 3);  // range and quantiles take most of it
  EXPECT_LT(receipt["total_ns"], whole);
  EXPECT_LE(receipt["kernel_ns"], receipt["total_ns"]);
}

TEST_F(Count, TakesNoMoreThreadsThanTheProcessMayUse) {
  const std::string file = TestFile("in", Pattern(size_t{64} << 20));
  const auto count = [&] { EXPECT_EQ(world_.Run({"count", file}), 0) << world_.err(); };
  EXPECT_GT(ShareOfTimeOnOneCore(count), 0.9);
}

TEST_F(Count, OneBadFileLeavesTheOthers) {
  const std::string good = TestFile("good", "abc");
  EXPECT_EQ(world_.Run({"count", good, "/no/such", "/tmp", "*.none", good, "--format", "csv"}), 1);
  EXPECT_THAT(world_.out(), HasSubstr(good + ",97,97.0,98.0,1\n"));
  EXPECT_THAT(world_.err(), HasSubstr("cannot open /no/such: No such file or directory\n"));
  EXPECT_THAT(world_.err(), HasSubstr("/tmp is a directory; name its files\n"));
  EXPECT_THAT(world_.err(), HasSubstr("no file matches *.none\n"));
  EXPECT_EQ(world_.Run({"count", "/no/such"}), 1);
  EXPECT_EQ(world_.out(), "");
}

TEST_F(Count, ErrorsNameTheOption) {
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--bins", "17000000"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr(": --bins: must be a whole number from 1 to 16777216, not"));
  EXPECT_EQ(world_.Run({"count", file, "--bins", "3", "--range", "-1e308:1e308"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr(": --range: HI is 1e+308; its distance from lower"));
  const FakeServer server({.failures = {{grpc::StatusCode::INVALID_ARGUMENT,
                                         "spec.binning.even.bin_count asks for 70000 bins; the "
                                         "limit is 65536",
                                         "TOO_MANY_BINS", 65536}}});
  EXPECT_EQ(world_.Run({"count", file, "--bins", "70000", "--server", server.address()}), 1);
  EXPECT_THAT(world_.err(), HasSubstr(": --bins asks for 70000 bins; the limit is 65536\n"));
}

TEST_F(Count, MoreBinsThanAServerTakes) {
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--bins", "200000", "--range", "0:250", "--format", "csv"}),
            0);
  const std::string out = world_.out();  // too long to be printed
  const size_t bin_of_l = out.find(",86400,108.0,");
  ASSERT_NE(bin_of_l, std::string::npos);
  EXPECT_EQ(out.substr(out.find('\n', bin_of_l) - 2, 2), ",2");
}

TEST_F(Count, ErrorsNameTheProgramAsItsUserCallsIt) {
  world_.env().program = "histogram";
  EXPECT_EQ(world_.Run({"count", "/no/such"}), 1);
  EXPECT_THAT(world_.err(), MatchesRegex("histogram: cannot open /no/such: .*\n"));
  EXPECT_EQ(world_.Run({"frob"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("Run histogram --help for"));
  EXPECT_EQ(world_.Run({"--version"}), 0);
  EXPECT_THAT(world_.out(), MatchesRegex("histogram [0-9.]+\n"));
}

TEST_F(Count, AHintNamesTheCommandsHelp) {
  const std::string file = TestFile("in", "hello");
  world_.env().program = "histogram";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"count", file, "--bins", "0"},
                                             {file, "--bins", "0"},
                                             {"count", file, "--frob"},
                                             {"count", file, "--bins", "3", "--range", "1:0"}}) {
    EXPECT_EQ(world_.Run(arguments), 2);
    EXPECT_THAT(world_.err(), HasSubstr("Run histogram count --help for"));
  }
  EXPECT_EQ(world_.Run({"describe", "--format", "svg"}), 2);
  EXPECT_THAT(world_.err(), HasSubstr("Run histogram describe --help for"));
  EXPECT_EQ(world_.Run({"count", file, "--tls"}), 2);  // the program's own option
  EXPECT_THAT(world_.err(), HasSubstr("Run histogram --help for"));
}

TEST_F(Count, AnImageNeedsNoServer) {
  const std::string bytes = "P3 4 1 255  0 0 0  9 9 9  200 201 202  255 255 255";
  const std::string file = TestFile("in.ppm", bytes);
  ASSERT_EQ(world_.Run({"image", file}), 0) << world_.err();
  EXPECT_THAT(world_.out(), HasSubstr("scalar in process"));
  const Fed fed(world_, bytes);
  ASSERT_EQ(world_.Run({"image", "-", "--format", "json"}), 0) << world_.err();
  EXPECT_EQ(Json()["histograms"][1]["counts"][201], 1);
  EXPECT_EQ(Json()["histograms"][3]["channel"], "luminance");
  EXPECT_EQ(Json()["otsu_threshold"], 9);
}

TEST_F(Count, TheOutputsNameSaysItsFormat) {
  const std::string file = TestFile("in", "hello");
  const auto written = [&](const std::string& name, std::vector<std::string> more = {}) {
    const std::string out = TestPath(name);
    std::vector<std::string> arguments = {"count", file, "--output", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(world_.Run(arguments), 0) << world_.err();
    EXPECT_EQ(world_.out(), "");
    return ReadAll(out);
  };
  EXPECT_THAT(written("a.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(written("a.JSON"), HasSubstr("\"schema\""));
  EXPECT_THAT(written("a.csv"), HasSubstr("source,bin,"));
  EXPECT_THAT(written("a.txt"), HasSubstr("5 bytes, 256 bins"));
  EXPECT_THAT(written("a.svg", {"--format", "csv"}), HasSubstr("source,bin,"));
  EXPECT_THAT(written("a.pdf", {"--format", "svg"}), HasSubstr("</svg>"));
  EXPECT_EQ(world_.Run({"count", file, "--output", TestPath("b.PNG")}), 2);
  EXPECT_NE(access(TestPath("b.PNG").c_str(), F_OK), 0);
  EXPECT_EQ(world_.Run({"count", file, "--output", "x.csv", "--statistics"}), 2);
}

TEST_F(Count, ADashAsOutputIsStandardOutput) {
  EXPECT_EQ(world_.Run({"count", TestFile("in", "hello"), "--output", "-"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("5 bytes, 256 bins"));
  EXPECT_NE(access("-", F_OK), 0);
}

TEST_F(Count, NoInputIsOverwritten) {
  const std::string file = TestFile("in", "hello");
  const std::string link = TestPath("link");
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  const std::string picture = TestFile("in.pgm", "P2 4 1 255 1 2 200 201");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"count", file, "--output", file},
                                             {"count", link, "--output", file},
                                             {"compute", file, "--output", link},
                                             {"image", picture, "--output", picture},
                                             {"image", picture, "--binarize", picture}}) {
    EXPECT_EQ(world_.Run(arguments), 2);
    EXPECT_THAT(world_.err(), HasSubstr("is also an input, which would be overwritten"));
  }
  world_.env().standard_input = open(file.c_str(), O_RDONLY);
  EXPECT_EQ(world_.Run({"count", "--output", file}), 2);
  close(world_.env().standard_input);
  EXPECT_EQ(ReadAll(file), "hello");
  EXPECT_THAT(ReadAll(picture), Not(HasSubstr("pixels")));
}

TEST_F(Count, EntropyOfBinsIsSaidToBeThat) {
  const std::string file = TestFile("in", "hello");
  EXPECT_EQ(world_.Run({"count", file, "--statistics"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("entropy in bits 1.92193"));
  EXPECT_EQ(world_.Run({"count", file, "--statistics", "--bins", "2"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("entropy of the bins in bits 0,"));
}

}  // namespace
}  // namespace histogram::cli
