// The command line as a user sees it: what it prints, where, and with which exit code.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/files.h"
#include "client/cli/picture/image.h"
#include "client/cli/render/text.h"
#include "tests/client/cli_world.h"
#include "tests/client/client_testing.h"
#include "tests/client/fake_server.h"

namespace histogram::cli {
namespace {

using client::Failure;
using client::FakeServer;
using client::Pattern;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Cli : public ::testing::Test {
 protected:
  // Against a server of this test's.
  int Run(const FakeServer& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server.address()});
    return world_.Run(std::move(arguments));
  }
  void ExpectOneErrorLine() {
    EXPECT_THAT(world_.err(), StartsWith("histogram-client: "));
    const std::string error = world_.err();
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  }
  nlohmann::json Json() { return nlohmann::json::parse(world_.out()); }

  World world_;
};

TEST_F(Cli, Help) {
  for (const char* const option : {"--help", "-h"}) {
    EXPECT_EQ(world_.Run({option}), 0);
    EXPECT_THAT(world_.out(), HasSubstr("Usage: histogram-client [OPTIONS] FILE...\n"
                                        "       histogram-client [OPTIONS] SUBCOMMAND\n"));
  }
  EXPECT_EQ(world_.Run({"compute", "--help"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("--alphabet"));
  EXPECT_EQ(world_.Run({"bench", "--help"}), 0);
  EXPECT_THAT(world_.out(), Not(HasSubstr("svg")));  // which it does not write
}

TEST_F(Cli, EachCommandsHelpHasExamplesOfItsOwn) {
  for (const char* const command : {"count", "compute", "image", "bench", "describe", "health"}) {
    EXPECT_EQ(world_.Run({command, "--help"}), 0);
    const std::string text = world_.out();
    const std::string examples = text.substr(text.find("Examples:\n"));
    for (const absl::string_view line : absl::StrSplit(examples, '\n')) {
      if (!absl::StrContains(line, "histogram-client")) continue;
      EXPECT_THAT(std::string(line), HasSubstr(std::string("histogram-client ") + command));
    }
    EXPECT_THAT(examples, HasSubstr("--server")) << command;
  }
}

TEST_F(Cli, WhatMakesNoSenseIsAUsageError) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "name a FILE to count (- is standard input), or a command: count, compute, image"},
      {{"--bins", "4"}, "name a FILE to count, or - for standard input"},
      {{"*.bin"}, "no file matches *.bin"},
      {{"comput"}, "no file or command is named \"comput\"; did you mean compute?"},
      {{"frobnicate"},
       "no file or command is named \"frobnicate\"; the commands are count, compute"},
      {{"--frobnicate"}, "no option --frobnicate"},
      {{"image"}, "image needs a FILE"},
      {{"compute", "f", "--frobnicate"}, "compute has no option --frobnicate\n"},
      {{"--sever", "x", "health"}, "did you mean --server?"},
      {{"describe", "cpu"}, "unexpected argument \"cpu\""},
      {{"compute", "f", "--bins"}, "--bins needs a value"},
      {{"compute", "f", "--statistics=x"}, "--statistics takes no value"},
      {{"compute", "f", "--bins", "2", "--bins", "3"}, "--bins may be given only once"},
      {{"compute", "f", "--bins", "0"}, "--bins: must be a whole number from 1 to 16777216"},
      {{"compute", "f", "--bins", "4", "--edges", "1,2"}, "excludes"},
      {{"compute", "f", "--range", "0:5"}, "requires --bins"},
      {{"compute", "f", "--bins", "4", "--range", "5"}, "LO:HI"},
      {{"compute", "f", "--bins", "4", "--range", "5:5"}, "LO is 5; it must be below HI, 5"},
      {{"compute", "f", "--bins", "4", "--range", "0:inf"}, "\"inf\" is not a finite number"},
      {{"compute", "f", "--edges", "1"}, "a bin needs two edges"},
      {{"compute", "f", "--edges", "1.0000002,1.0000001"}, "1.0000001 follows 1.0000002"},
      {{"compute", "f", "--alphabet", "a"}, "FIRST:COUNT"},
      {{"compute", "f", "--alphabet", "a:x"}, "FIRST:COUNT"},
      {{"compute", "f", "--alphabet", "a:200"}, "COUNT is 200; it must be in 1..159"},
      {{"compute", "f", "--alphabet", "a:26:27"}, "PER_BIN is 27; it must be in 1..26"},
      {{"compute", "f", "--alphabet", "256:1:1"}, "FIRST:COUNT"},
      {{"compute", "f", "--quantiles", "0.5,2"}, "2 is not between 0 and 1"},
      {{"compute", "f", "--quantiles", "1.0000000000000002"}, "1.0000000000000002 is not between"},
      {{"compute", "f", "--statistics", "--format", "csv"}, "CSV has no place"},
      {{"compute", "f", "--rows", "5", "--format", "json"}, "only the table has rows"},
      {{"compute", "f", "--rows", "x"},
       "--rows: must be a whole number from 0 to 16777216, not \"x"},
      {{"compute", "f", "--format", "xml"}, "must be table, json, csv or svg, not \"xml\""},
      {{"compute", "-", "-"}, "only once"},
      {{"compute", "f", "-o", "x.pdf"},
       "--output: its format must be table, json, csv or svg, not \"pdf\"; rename the file"},
      {{"describe", "-o", "x.svg"}, "its format must be table or json, not \"svg\""},
      {{"compute", "f", "-o", "x.csv.gz"}, "must be table, json, csv or svg, not \"gz\""},
      {{"--bins", "3", "compute", "f"}, "write --bins after compute, whose option it is"},
      {{"--quantile", "0.5"}, "there is no option --quantile; did you mean --quantiles?"},
      {{"--server", ":15900", "health"},
       "--server: the server's address \":15900\" has no host; write HOST:PORT"},
      {{"image", "f", "--binarize", "out.jpeg"}, ".png or .pgm"},
      {{"image", "f", "--binarize", "q.pgm", "-o", "q.pgm"}, "name the same file"},
      {{"completion", "zsh"}, "must be bash, not \"zsh\""},
      {{"--timeout", "0", "health"}, "must be a number > 0, not \"0\""},
      {{"--tls-ca", "f", "health"}, "requires --tls"},
      {{"health", "--http", "localhost:1", "liveness"}, "excludes"},
      {{"--tls", "--tls-cert", "f", "health"}, "requires --tls-key"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(world_.Run(arguments), 2) << message;
    EXPECT_THAT(world_.err(), HasSubstr(message));
    EXPECT_EQ(world_.out(), "");
  }
}

TEST_F(Cli, AnEmptyValueIsRefused) {
  const std::string file = TestFile("in", "abc");
  for (const char* const option :
       {"--edges", "--quantiles", "--alphabet", "-o", "--column", "--rows", "--type", "--bins",
        "--server", "--token-file", "--tls-ca"}) {
    EXPECT_EQ(world_.Run({"count", file, option, ""}), 2) << option;
    EXPECT_THAT(world_.err(), HasSubstr("must not be empty")) << option;
  }
}

TEST_F(Cli, AlphabetsFirstSymbol) {
  const auto first = [](const std::string& text) {
    return SpecFromText({.binnings = {"", text}}, "--")->binning().alphabet().first_symbol();
  };
  EXPECT_EQ(first("a:26:6"), 'a');
  EXPECT_EQ(first("::3:1"), ':');
  EXPECT_EQ(first("9:3:1"), '9');
  EXPECT_EQ(first("09:3:1"), 9);
  EXPECT_EQ(first("0x61:3"), 'a');
  EXPECT_EQ(SpecFromText({.binnings = {"", "a:4"}}, "--")->binning().alphabet().symbols_per_bin(),
            1);
}

TEST_F(Cli, HelpIsThereWhateverTheEnvironmentSays) {
  setenv("HISTSVC_SERVER", "no-port", 1);
  EXPECT_EQ(world_.Run({"--help"}), 0);
  EXPECT_EQ(world_.Run({"completion"}), 0);
  EXPECT_EQ(world_.Run({"health"}), 2);
  EXPECT_THAT(world_.err(),
              HasSubstr("HISTSVC_SERVER: the server's address \"no-port\" has no port"));
  unsetenv("HISTSVC_SERVER");
}

TEST_F(Cli, AFileAboveTheServersLimitIsSentInChunks) {
  const FakeServer server({.payload_bytes_max = 1000});
  const std::string small = TestFile("small", Pattern(5000));
  const std::string large = TestFile("large", Pattern(200000));
  const std::string empty = TestFile("empty", "");
  for (const auto& [file, size] : {std::pair(small, 5000), {large, 200000}, {empty, 0}}) {
    ASSERT_EQ(Run(server, {"compute", file, "--format", "json"}), 0) << world_.err();
    EXPECT_EQ(Json()["histograms"][0]["samples"], size);
  }
}

TEST_F(Cli, ManyFilesOverOneStreamInTheirOrder) {
  const FakeServer server({.swap_pairs = true, .payload_bytes_max = 100000});
  std::vector<std::string> arguments = {"compute", "--format", "json"};
  for (int i = 1; i <= 20; ++i) {
    arguments.push_back(TestFile(absl::StrCat(i), Pattern(static_cast<size_t>(i) * 10)));
  }
  arguments.push_back(TestFile("large", Pattern(200000)));
  ASSERT_EQ(Run(server, arguments), 0) << world_.err();
  const auto json = Json()["histograms"];
  ASSERT_EQ(json.size(), 21);
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(json[static_cast<size_t>(i - 1)]["samples"], i * 10);
  EXPECT_EQ(json[20]["samples"], 200000);
  EXPECT_EQ(server.seen().streams, 1);
}

TEST_F(Cli, OneBadFileLeavesTheOthers) {
  const FakeServer server;
  const std::string good = TestFile("good", "abc");
  const std::string bad = TestFile("bad", "bad");
  EXPECT_EQ(Run(server, {"compute", good, bad, "/no/such", "/tmp", good, "--format", "csv"}), 1);
  EXPECT_THAT(world_.out(), HasSubstr(good + ",97,97.0,98.0,1\n"));
  EXPECT_THAT(world_.err(), HasSubstr(bad + ": this payload is bad\n"));
  EXPECT_THAT(world_.err(), HasSubstr("cannot open /no/such: No such file or directory\n"));
  EXPECT_THAT(world_.err(), HasSubstr("/tmp is a directory"));
}

TEST_F(Cli, NoServerIsSaidOnce) {
  std::string address;
  { address = FakeServer().address(); }
  const std::string file = TestFile("in", Pattern(100000));
  EXPECT_EQ(world_.Run({"--server", address, "compute", file, file, file}), 1);
  ExpectOneErrorLine();
  EXPECT_THAT(world_.err(), HasSubstr("no server answers at " + address));
  EXPECT_THAT(world_.err(), HasSubstr("--server"));
}

TEST_F(Cli, EachFailureIsOneClearLine) {
  const std::string file = TestFile("in", "abc");
  const std::vector<std::pair<Failure, std::string>> cases = {
      {{grpc::StatusCode::INVALID_ARGUMENT, "bins is 70000, the limit is 65536", "TOO_MANY_BINS"},
       "bins is 70000, the limit is 65536"},
      {{grpc::StatusCode::INVALID_ARGUMENT, "request.payload: 3 bytes"}, file + ": 3 bytes"},
      {{grpc::StatusCode::UNAUTHENTICATED, "no token"}, "--token-file"},
      {{grpc::StatusCode::UNIMPLEMENTED, "what?"}, "cannot do this: what?"},
      {{grpc::StatusCode::INTERNAL, "line one\nline two\x1b[2J"}, "line one line two"},
      {{grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING", 0, "-1"}, "not available: draining"},
  };
  for (const auto& [failure, message] : cases) {
    const FakeServer server({.failures = {failure}});
    EXPECT_EQ(Run(server, {"compute", file}), 1);
    ExpectOneErrorLine();
    EXPECT_THAT(world_.err(), HasSubstr(message));
    EXPECT_THAT(world_.err(), Not(HasSubstr("\x1b")));
    EXPECT_EQ(world_.out(), "");
  }
}

TEST_F(Cli, AServerThatIsNotReady) {
  FakeServer server;
  server.SetServing("histogram.v1.HistogramService", false);
  const std::string file = TestFile("in", "abc");
  EXPECT_EQ(Run(server, {"compute", file}), 1);
  ExpectOneErrorLine();
  EXPECT_THAT(world_.err(), HasSubstr("not ready"));
  EXPECT_EQ(Run(server, {"health", "histogram.v1.HistogramService"}), 1);
  EXPECT_EQ(world_.out(), "NOT_SERVING\n");
  EXPECT_EQ(Run(server, {"health", "nobody"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("knows no service \"nobody\""));
}

TEST_F(Cli, TokenFromAFile) {
  const FakeServer server;
  const std::string file = TestFile("in", "abc");
  EXPECT_EQ(Run(server, {"--token-file", TestFile("token", "t0ken\n"), "compute", file}), 0);
  EXPECT_EQ(server.seen().authorization, "Bearer t0ken");
  EXPECT_EQ(Run(server, {"--token-file", "/no/such", "health"}), 1);
  ExpectOneErrorLine();
  for (const auto& [token, message] : std::vector<std::pair<std::string, std::string>>{
           {" \n", " is empty"},
           {"two words", " holds spaces or bytes that are not"},
           {std::string(5000, 'x'), " is longer than 4.00 KiB"}}) {
    const std::string path = TestFile("token", token);
    EXPECT_EQ(Run(server, {"--token-file", path, "health"}), 1);
    EXPECT_THAT(world_.err(), HasSubstr(path + message));
  }
}

TEST_F(Cli, Describes) {
  const FakeServer server;
  EXPECT_EQ(Run(server, {"describe"}), 0);
  EXPECT_THAT(world_.out(), HasSubstr("version: 1.2.3"));
  EXPECT_THAT(world_.out(), HasSubstr("one byte at a time"));
  for (const absl::string_view line : absl::StrSplit(world_.out(), '\n')) {
    EXPECT_LE(DisplayWidth(line), 80) << line;
  }
  EXPECT_EQ(Run(server, {"describe", "--format", "json"}), 0);
  EXPECT_EQ(Json()["limits"]["payload_bytes_max"], 64 << 20);
  EXPECT_EQ(Json()["backends"][0]["up"], true);
}

TEST_F(Cli, BinarizesAPicture) {
  const FakeServer server;
  const std::string file = TestFile("in.pgm", "P2 4 1 255 1 2 200 201");
  for (const char* const name : {"out.png", "out.PGM"}) {
    const std::string out = TestPath(name);
    ASSERT_EQ(Run(server, {"image", file, "--binarize", out}), 0) << world_.err();
    const auto image = DecodeImage(ReadAll(out));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->channels[0].values, std::string("\0\0\xff\xff", 4));
  }
  const std::string flat = TestFile("flat.pgm", "P2 2 1 255 7 7");
  EXPECT_EQ(Run(server, {"image", flat, "--binarize", TestPath("flat.png")}), 1);
  ExpectOneErrorLine();
  EXPECT_EQ(Run(server, {"image", flat}), 0);
}

TEST_F(Cli, AMalformedPictureIsOneClearLine) {
  const FakeServer server;
  EXPECT_EQ(Run(server, {"image", TestFile("in", "P5 9 9 255\nx")}), 1);
  ExpectOneErrorLine();
  EXPECT_THAT(world_.err(), HasSubstr("cut off"));
  EXPECT_EQ(server.seen().calls, 0);
  EXPECT_EQ(Run(server, {"image", TestFile("photo.jpeg", "\xff\xd8\xff\xe0 and so on")}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("photo.jpeg: not a PGM, PPM or PNG picture; ImageMagick"));
}

}  // namespace
}  // namespace histogram::cli
