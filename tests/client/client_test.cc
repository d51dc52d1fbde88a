#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/histogram_client.h"
#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

using ::testing::HasSubstr;

// Every byte differs from its neighbours, in a pattern that does not repeat with chunks.
std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

std::unique_ptr<Client> Connect(const FakeServer& server, ConnectOptions options = {}) {
  options.backoff_initial = absl::Milliseconds(1);
  options.backoff_max = absl::Milliseconds(5);
  auto client = Client::Connect(server.address(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

std::vector<uint64_t> Counts(const v1::Histogram& histogram) {
  return {histogram.counts().begin(), histogram.counts().end()};
}

Reader ReaderOf(const std::string& bytes, size_t step) {
  auto offset = std::make_shared<size_t>(0);
  return [=, &bytes](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
    const size_t size = std::min({step, buffer.size(), bytes.size() - *offset});
    bytes.copy(buffer.data(), size, *offset);
    *offset += size;
    return size;
  };
}

TEST(Compute, CountsWhatWasSent) {
  const FakeServer server;
  const auto client = Connect(server);
  const auto reply = client->Compute(v1::Spec(), "hello");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(PlainHistogram(v1::Spec(), "hello")));
  EXPECT_EQ(reply->receipt().backend(), "fake");
}

TEST(Compute, EmptyPayload) {
  const FakeServer server;
  const auto reply = Connect(server)->Compute(v1::Spec(), "");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->histogram().samples(), 0);
  EXPECT_EQ(reply->histogram().counts_size(), 256);
}

TEST(Compute, OverAUnixSocket) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/histogram-client-test.sock");
  std::remove(path.c_str());
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
  EXPECT_EQ(Counts(reply->histogram()), Counts(PlainHistogram(v1::Spec(), payload)));
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

TEST(Compute, OneAttemptMeansOne) {
  const FakeServer server({.failures = {{grpc::StatusCode::UNAVAILABLE, "down"}}});
  const auto reply = Connect(server, {.attempts_max = 1})->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().computes, 1);
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

TEST(Compute, NoServer) {
  std::string address;
  { address = FakeServer().address(); }
  const auto client = Client::Connect(address, {.backoff_initial = absl::Milliseconds(1)});
  const auto reply = (*client)->Compute(v1::Spec(), "abc");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ErrorDetail(reply.status()).has_value());
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

TEST(Compute, SendsTheTokenOnLoopback) {
  const FakeServer server;
  ASSERT_TRUE(Connect(server, {.bearer_token = "s3cret"})->Compute(v1::Spec(), "abc").ok());
  EXPECT_EQ(server.seen().authorization, "Bearer s3cret");
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

std::vector<Item> Items(size_t count) {
  std::vector<Item> items;
  for (size_t i = 0; i < count; ++i) items.push_back({.id = i / 2, .payload = Pattern(i * 7)});
  return items;
}

void ExpectAllAnswered(const std::vector<ItemResult>& results, size_t count) {
  ASSERT_EQ(results.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(results[i].id, i / 2);
    ASSERT_TRUE(results[i].response.ok()) << i << ": " << results[i].response.status();
    EXPECT_EQ(Counts(results[i].response->histogram()),
              Counts(PlainHistogram(v1::Spec(), Pattern(i * 7))));
  }
}

TEST(ComputeMany, AnswersByIdEvenWhenIdsRepeat) {
  const FakeServer server({.swap_pairs = true});
  ExpectAllAnswered(Connect(server)->ComputeMany(Items(101)), 101);
  EXPECT_EQ(server.seen().streams, 1);
}

TEST(ComputeMany, NothingToSend) {
  const FakeServer server;
  EXPECT_TRUE(Connect(server)->ComputeMany(std::vector<Item>()).empty());
}

TEST(ComputeMany, AnErrorOfOnePayloadLeavesTheOthers) {
  const FakeServer server;
  std::vector<Item> items = {
      {.id = 1, .payload = "good"}, {.id = 2, .payload = "bad"}, {.id = 3, .payload = "fine"}};
  const auto results = Connect(server)->ComputeMany(std::move(items));
  EXPECT_TRUE(results[0].response.ok());
  EXPECT_EQ(results[1].response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorDetail(results[1].response.status())->reason(), "BAD");
  EXPECT_TRUE(results[2].response.ok());
}

TEST(ComputeMany, BoundsWhatIsInFlight) {
  const FakeServer server({.swap_pairs = true});
  const auto client = Connect(server);
  size_t open = 0;
  size_t open_max = 0;
  size_t given = 0;
  size_t answered = 0;
  const absl::Status status = client->ComputeMany(
      [&]() -> std::optional<Item> {
        if (given == 50) return std::nullopt;
        open_max = std::max(open_max, ++open);
        return Item{.id = given++, .payload = "abc"};
      },
      [&](const ItemResult& result) {
        EXPECT_TRUE(result.response.ok());
        --open;
        ++answered;
      },
      {.in_flight_max = 3});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(answered, 50);
  EXPECT_GE(open_max, 2);  // the server answers in pairs
  EXPECT_LE(open_max, 3);
}

TEST(ComputeMany, OnePayloadBeyondTheByteBoundStillGoes) {
  const FakeServer server;
  ManyOptions options;
  options.in_flight_bytes_max = 1;
  const auto client = Connect(server);
  ExpectAllAnswered(client->ComputeMany(Items(20), options), 20);
}

TEST(ComputeMany, AStreamThatDrainsIsOpenedAgainForTheRest) {
  const FakeServer server({.stream_answers_max = 10});
  ExpectAllAnswered(Connect(server)->ComputeMany(Items(60)), 60);
  EXPECT_EQ(server.seen().streams, 2);
}

TEST(ComputeMany, GivesUpAfterItsAttemptsAndAnswersEveryPayload) {
  const Failure down = {grpc::StatusCode::UNAVAILABLE, "down"};
  const FakeServer server({.failures = {down, down, down, down, down}});
  const auto results = Connect(server, {.attempts_max = 2})->ComputeMany(Items(40));
  ASSERT_EQ(results.size(), 40);
  for (const ItemResult& result : results) {
    EXPECT_EQ(result.response.status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(server.seen().streams, 2);
}

TEST(ComputeMany, ANegativePushbackIsFinal) {
  const FakeServer server({.failures = {{grpc::StatusCode::UNAVAILABLE, "go", "", 0, "-1"}}});
  const auto results = Connect(server)->ComputeMany(Items(3));
  EXPECT_EQ(results[2].response.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().streams, 1);
}

TEST(ComputeMany, ALieFailsThePayload) {
  const FakeServer server({.lie = true});
  const auto results = Connect(server)->ComputeMany(Items(2));
  EXPECT_EQ(results[0].response.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(results[1].response.status().code(), absl::StatusCode::kInternal);
}

TEST(Accumulate, CountsAReaderInShortReads) {
  const FakeServer server;
  const std::string bytes = Pattern(300000);
  std::vector<uint64_t> progress;
  AccumulateOptions options;
  options.on_progress = [&](uint64_t sent) { progress.push_back(sent); };
  const auto reply = Connect(server)->Accumulate(v1::Spec(), ReaderOf(bytes, 70000), options);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(PlainHistogram(v1::Spec(), bytes)));
  EXPECT_EQ(reply->chunks(), 5);
  EXPECT_EQ(progress, (std::vector<uint64_t>{70000, 140000, 210000, 280000, 300000}));
}

TEST(Accumulate, NoBytesAtAllStillHasAHistogram) {
  const FakeServer server;
  const std::string nothing;
  v1::Spec spec;
  spec.mutable_binning()->mutable_even()->set_bin_count(4);
  const auto reply = Connect(server)->Accumulate(spec, ReaderOf(nothing, 1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->histogram().samples(), 0);
  EXPECT_EQ(reply->histogram().counts_size(), 4);  // the spec was said
}

TEST(Accumulate, SnapshotsComeAsAsked) {
  const FakeServer server;
  const std::string bytes = Pattern(100000);
  std::vector<uint64_t> samples;
  AccumulateOptions options;
  options.chunk_bytes = 10000;
  options.snapshot_bytes = 40000;
  options.on_snapshot = [&](const v1::AccumulateResponse& snapshot) {
    samples.push_back(snapshot.histogram().samples());
  };
  const auto reply = Connect(server)->Accumulate(v1::Spec(), ReaderOf(bytes, 10000), options);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(samples, (std::vector<uint64_t>{40000, 80000}));
}

TEST(Accumulate, IsNeverRetried) {
  const FakeServer server({.failures = {{grpc::StatusCode::UNAVAILABLE, "not yet"}}});
  const std::string bytes = Pattern(1000);
  const auto reply = Connect(server)->Accumulate(v1::Spec(), ReaderOf(bytes, 100));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.seen().calls, 1);
}

TEST(Accumulate, AServerThatDrainsHandsOverWhatItCounted) {
  const FakeServer server({.chunks_max = 3});
  const std::string bytes = Pattern(100000);
  uint64_t counted = 0;
  AccumulateOptions options;
  options.on_snapshot = [&](const v1::AccumulateResponse& snapshot) {
    counted = snapshot.histogram().samples();
  };
  const auto reply = Connect(server)->Accumulate(v1::Spec(), ReaderOf(bytes, 1000), options);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorDetail(reply.status())->reason(), "DRAINING");
  EXPECT_EQ(counted, 3000);
}

TEST(Accumulate, AReadersErrorEndsTheCall) {
  const FakeServer server;
  int reads = 0;
  const auto reply = Connect(server)->Accumulate(
      v1::Spec(), [&](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
        if (++reads > 2) return absl::DataLossError("the disk is gone");
        return buffer.size();
      });
  EXPECT_EQ(reply.status(), absl::DataLossError("the disk is gone"));
}

TEST(Accumulate, AReaderThatClaimsTooMuchIsRefused) {
  const FakeServer server;
  const auto reply = Connect(server)->Accumulate(
      v1::Spec(),
      [](absl::Span<char> buffer) -> absl::StatusOr<size_t> { return buffer.size() + 1; });
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
}

TEST(AccumulateFile, CountsAFile) {
  const FakeServer server;
  const std::string path = absl::StrCat(::testing::TempDir(), "/accumulate-file");
  const std::string bytes = Pattern(3000001);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto reply = Connect(server)->AccumulateFile(v1::Spec(), path);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(PlainHistogram(v1::Spec(), bytes)));
  EXPECT_EQ(reply->chunks(), 3);
}

TEST(AccumulateFile, NoSuchFile) {
  const FakeServer server;
  const auto reply = Connect(server)->AccumulateFile(v1::Spec(), "/no/such/file");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("/no/such/file"));
  EXPECT_EQ(server.seen().calls, 0);
}

TEST(Describe, Answers) {
  const FakeServer server;
  const auto reply = Connect(server)->Describe();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->version(), "1.2.3");
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
