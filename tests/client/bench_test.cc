// `histogram-client bench` as a user sees it, against a server of the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/cli_world.h"
#include "tests/client/fake_server.h"

namespace histogram::cli {
namespace {

using client::Failure;
using client::FakeServer;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class Bench : public ::testing::Test {
 protected:
  int Run(const FakeServer& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "--server", server.address(), "--warm-up", "0",
                                         "--payload-bytes", "1KiB"});
    return world_.Run(std::move(arguments));
  }

  World world_;
};

TEST_F(Bench, ARateBelowOneIsNoZero) {
  const FakeServer server;
  ASSERT_EQ(Run(server, {"--duration", "1.2", "--rate", "0.1"}), 0) << world_.err();
  EXPECT_THAT(world_.out(), MatchesRegex("0\\.[0-9]*[1-9] requests/s(.|\n)*"));
  EXPECT_THAT(world_.out(), Not(HasSubstr("its limit")));
}

TEST_F(Bench, ARateBeyondTheClientIsItsOwnLimit) {
  const FakeServer server;
  Run(server, {"--duration", "0.5", "--rate", "1e9"});
  EXPECT_THAT(world_.out(), HasSubstr("latency  p50 "));
  EXPECT_THAT(world_.out(), HasSubstr(" requests/s of the 1e+09 asked for: its limit"));
}

TEST_F(Bench, APayloadOverTheLimitIsNotSent) {
  const FakeServer server({.payload_bytes_max = 1000});
  for (const char* const api : {"compute", "compute-many", "accumulate"}) {
    EXPECT_EQ(Run(server, {"--api", api}), 1);
    EXPECT_THAT(world_.err(), HasSubstr("1.00 KiB is more than the limit"));
    EXPECT_THAT(world_.err(), HasSubstr("1,000 bytes"));
  }
  EXPECT_EQ(server.seen().calls, 0);
}

TEST_F(Bench, WithoutASuccessItFailsWithTheServersSentence) {
  const Failure refusal = {grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full: 1 of 1", "", 0,
                           "-1"};
  const FakeServer server({.failures = std::vector<Failure>(100000, refusal)});
  EXPECT_EQ(Run(server, {"--duration", "0.5"}), 1);
  EXPECT_THAT(world_.out(), HasSubstr(" x refused: the queue is full: 1 of 1\n"));
  EXPECT_THAT(world_.err(), EndsWith("no request succeeded: refused: the queue is full: 1 of 1\n"));
  EXPECT_EQ(Run(server, {"--duration", "0.5", "--api", "accumulate"}), 1);
  EXPECT_THAT(world_.err(), HasSubstr("no request succeeded"));
}

TEST_F(Bench, AServerThatDrainsAnAccumulateIsNotCalledWrong) {
  const FakeServer server({.chunks_max = 3});
  EXPECT_EQ(Run(server, {"--duration", "0.5", "--api", "accumulate"}), 1);
  EXPECT_THAT(world_.out(), HasSubstr("errors   1\n  1 x draining\n"));
  EXPECT_THAT(world_.err(), HasSubstr("draining\n"));
}

TEST_F(Bench, CtrlCPrintsWhatWasMeasured) {
  const FakeServer server;
  std::thread impatient([&] {
    while (server.seen().computes < 100) absl::SleepFor(absl::Milliseconds(1));
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(Run(server, {"--duration", "3600", "--format", "json"}), 130);
  impatient.join();
  const auto json = nlohmann::json::parse(world_.out());
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_GT(json["requests"], 0);
  EXPECT_LT(json["seconds"], 3600);
  EXPECT_THAT(world_.err(), HasSubstr("interrupted after"));
}

TEST_F(Bench, CtrlCWhileWarmingUp) {
  const FakeServer server;
  std::thread impatient([&] {
    while (server.seen().computes == 0) absl::SleepFor(absl::Milliseconds(1));
    kill(getpid(), SIGINT);
  });
  EXPECT_EQ(world_.Run({"bench", "--server", server.address(), "--warm-up", "3600"}), 130);
  impatient.join();
  EXPECT_EQ(world_.out(), "");
  EXPECT_THAT(world_.err(), HasSubstr("nothing was measured"));
}

TEST_F(Bench, SenselessNumbersAreUsageErrors) {
  const FakeServer server;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--duration", "0"}, "--duration: must be a number > 0, not \"0\""},
      {{"--warm-up", "-1"}, "--warm-up: must be a number >= 0"},
      {{"--connections", "0"}, "--connections: must be a whole number from 1 to 1024"},
      {{"--in-flight", "x"}, "--in-flight: must be a whole number from 1 to 65536"},
      {{"--rate", "0"}, "--rate: must be a number > 0"},
      {{"--rate", "5", "--api", "accumulate"}, "--rate: possible with Compute only"},
      {{"--payload-bytes", "2GiB"}, "--payload-bytes: must be a size of at most 1 GiB"},
      {{"--payload-bytes", "x"}, "such as 4096 or 64KiB, not \"x\""},
      {{"--payload-bytes", ""}, "must not be empty"},
      {{"--format", "svg"}, "--format: must be table or json, not \"svg\""},
  };
  for (const auto& [arguments, message] : cases) {
    std::vector<std::string> all = {"bench", "--server", server.address()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(world_.Run(all), 2) << message;
    EXPECT_THAT(world_.err(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace histogram::cli
