#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <histogram/client.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/client_testing.h"
#include "tests/client/fake_server.h"
#include "tests/test_path.h"

namespace histogram::client {
namespace {

using ::testing::HasSubstr;

TEST(Compute, CountsWhatWasSent) {
  const FakeServer server;
  const auto client = Connect(server);
  const auto reply = client->Compute(v1::Spec(), "hello");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(AnswerOf(v1::Spec(), "hello")));
  EXPECT_EQ(reply->receipt().backend(), "fake");
}

TEST(Compute, OverAUnixSocket) {
  const std::string path = TestPath("socket");
  const FakeServer server(Script(), "unix:" + path);
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->histogram().samples(), 3);
}

TEST(Compute, ARetryAfterUnavailableResends16MiB) {
  const FakeServer server({.failures = {{grpc::StatusCode::UNAVAILABLE, "not yet"}}});
  const std::string payload = Pattern(size_t{16} << 20);
  const auto reply = Connect(server)->Compute(v1::Spec(), payload);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(AnswerOf(v1::Spec(), payload)));
  EXPECT_EQ(server.seen().computes, 2);
  EXPECT_EQ(server.seen().payload_bytes, 2 * payload.size());  // whole, both times
}

TEST(Compute, APayloadBeyondTheRetryBufferIsNotRetried) {
  const FakeServer server({.failures = {{grpc::StatusCode::UNAVAILABLE, "not yet"}}});
  const auto reply =
      Connect(server, {.payload_bytes_max = 1024})->Compute(v1::Spec(), Pattern(size_t{4} << 20));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().computes, 1);
}

TEST(Compute, AFullQueueIsRetriedWhenTheServerSays) {
  const FakeServer server(
      {.failures = {{grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "QUEUE_FULL", 5, "20"}}});
  const absl::Time start = absl::Now();
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(server.seen().computes, 2);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
}

TEST(Compute, APayloadTooLargeIsFinal) {
  const FakeServer server({.payload_bytes_max = 2});
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("the limit is 2"));
  const auto detail = ErrorDetail(reply.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason(), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(detail->limit(), 2);
  EXPECT_EQ(server.seen().computes, 1);
}

TEST(Compute, InvalidArgumentIsNotRetried) {
  const FakeServer server(
      {.failures = {{grpc::StatusCode::INVALID_ARGUMENT, "bins", "BAD_BINNING", 7}}});
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorDetail(reply.status())->reason(), "BAD_BINNING");
  EXPECT_EQ(server.seen().computes, 1);
}

TEST(Compute, GivesUpAfterItsAttempts) {
  const Failure down = {grpc::StatusCode::UNAVAILABLE, "down"};
  const FakeServer server({.failures = {down, down, down, down, down}});
  const auto reply = Connect(server, {.attempts_max = 3})->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().computes, 3);
}

// Retries of each call would multiply the load of a server that can do no more.
TEST(Compute, RetriesAreThrottled) {
  const Failure down = {grpc::StatusCode::UNAVAILABLE, "down"};
  const FakeServer server({.failures = std::vector<Failure>(200, down)});
  const auto client = Connect(server);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client->Compute(v1::Spec(), "abc").status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_GT(server.seen().computes, 20);
  EXPECT_LE(server.seen().computes, 26);
}

TEST(Compute, ATimeoutMayBeEndlessOrOver) {
  const FakeServer server;
  const auto client = Connect(server);
  for (const absl::Duration endless :
       {absl::InfiniteDuration(), absl::Hours(24 * 365 * 10000), absl::Seconds(1e300)}) {
    const auto reply = client->Compute(v1::Spec(), "abc", {.timeout = endless});
    EXPECT_TRUE(reply.ok()) << endless << reply.status();
  }
  for (const absl::Duration over :
       {absl::ZeroDuration(), absl::Seconds(-1), -absl::InfiniteDuration()}) {
    const auto reply = client->Compute(v1::Spec(), "abc", {.timeout = over});
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kDeadlineExceeded) << over;
  }
}

TEST(Compute, ADeadlineEndsIt) {
  const FakeServer server({.hang = true});
  const auto reply =
      Connect(server)->Compute(v1::Spec(), "abc", {.timeout = absl::Milliseconds(50)});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Compute, ALieIsNotHandedOut) {
  const FakeServer server({.lie = true});
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("add up to 4 of 3"));
}

// gRPC 1.51 crashed here when its channels shared their failed connections.
TEST(Compute, NoServerManyTimesAndFromSeveralClients) {
  std::string address;
  { address = FakeServer().address(); }
  const auto one = *Client::Connect(address, {.backoff_initial = absl::Milliseconds(1)});
  const auto two = *Client::Connect(address, {.attempts_max = 1});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(one->Describe().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(one->Compute(v1::Spec(), "abc").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(two->Compute(v1::Spec(), "abc").status().code(), absl::StatusCode::kUnavailable);
    const auto three = *Client::Connect(address, {.attempts_max = 1});
    EXPECT_EQ(three->ComputeMany({Item()})[0].response.status().code(),
              absl::StatusCode::kUnavailable);
  }
}

TEST(Compute, AServerThatGoesAway) {
  for (int round = 0; round < 5; ++round) {
    auto server = std::make_unique<FakeServer>();
    const auto client = Connect(*server, {.attempts_max = 1});
    ASSERT_TRUE(client->Compute(v1::Spec(), "abc").ok());
    server.reset();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(client->Compute(v1::Spec(), "abc").status().code(), absl::StatusCode::kUnavailable);
    }
  }
}

TEST(Compute, AServerThatIsNotReadyIsLeftOut) {
  FakeServer server;
  server.SetServing("histogram.v1.HistogramService", false);
  const auto reply = Connect(server)->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().computes, 0);
  EXPECT_TRUE(Connect(server, {.health_checking = false})->Compute(v1::Spec(), "abc").ok());
}

TEST(Compute, RoundRobinUsesBothServersAndLeavesOutTheOneNotReady) {
  FakeServer one;
  FakeServer two;
  const auto port = [](const FakeServer& server) {
    return server.address().substr(server.address().rfind(':') + 1);
  };
  const auto client =
      *Client::Connect(absl::StrCat("ipv4:127.0.0.1:", port(one), ",127.0.0.1:", port(two)));
  // The second connection may come up later than the first.
  for (int i = 0; i < 10000 && (one.seen().computes == 0 || two.seen().computes == 0); ++i) {
    ASSERT_TRUE(client->Compute(v1::Spec(), "abc").ok());
  }
  EXPECT_GT(one.seen().computes, 0);
  EXPECT_GT(two.seen().computes, 0);
}

TEST(Compute, OneClientServesManyThreads) {
  const FakeServer server;
  const auto client = Connect(server);
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int& count : good) {
    threads.emplace_back([&client, &count] {
      for (int i = 0; i < 20; ++i) {
        if (client->Compute(v1::Spec(), std::string(static_cast<size_t>(i), 'x')).ok()) ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 20));
}

TEST(Health, TellsEachServicesState) {
  FakeServer server;
  const auto client = Connect(server);
  EXPECT_EQ(*client->Health(), HealthStatus::kServing);
  server.SetServing("backend/cpu", false);
  EXPECT_EQ(*client->Health("backend/cpu"), HealthStatus::kNotServing);
  EXPECT_EQ(client->Health("nobody").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client->Health(std::string(200, 'x')).status().code(), absl::StatusCode::kNotFound);
}

TEST(Health, ReachesAServerThatIsNotReady) {
  FakeServer server;
  server.SetServing("histogram.v1.HistogramService", false);
  const auto client = Connect(server);
  EXPECT_EQ(*client->Health("histogram.v1.HistogramService"), HealthStatus::kNotServing);
  EXPECT_TRUE(client->Describe().ok());
}

}  // namespace
}  // namespace histogram::client
