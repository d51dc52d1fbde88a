// ComputeMany and Accumulate against a server of the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <histogram/client.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/client_testing.h"
#include "tests/client/fake_server.h"
#include "tests/test_path.h"

namespace histogram::client {
namespace {

using ::testing::HasSubstr;

Reader ReaderOf(const std::string& bytes, size_t step) {
  auto offset = std::make_shared<size_t>(0);
  return [=, &bytes](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
    const size_t size = std::min({step, buffer.size(), bytes.size() - *offset});
    bytes.copy(buffer.data(), size, *offset);
    *offset += size;
    return size;
  };
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
              Counts(AnswerOf(v1::Spec(), Pattern(i * 7))));
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

TEST(ComputeMany, StreamsThatFailAreThrottled) {
  const Failure down = {grpc::StatusCode::UNAVAILABLE, "down"};
  const FakeServer server({.failures = std::vector<Failure>(200, down)});
  const auto client = Connect(server);
  for (int i = 0; i < 20; ++i) client->ComputeMany({{.id = 1, .payload = "abc"}});
  EXPECT_GT(server.seen().streams, 20);
  EXPECT_LE(server.seen().streams, 26);
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
  EXPECT_EQ(Counts(reply->histogram()), Counts(AnswerOf(v1::Spec(), bytes)));
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
  const std::string path = TestPath("file");
  const std::string bytes = Pattern(3000001);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto reply = Connect(server)->AccumulateFile(v1::Spec(), path);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(AnswerOf(v1::Spec(), bytes)));
  EXPECT_EQ(reply->chunks(), 3);
}

TEST(AccumulateFile, ASignalDoesNotEndTheReading) {
  struct sigaction before = {};
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);       // without SA_RESTART
  auto* const pipe_before = std::signal(SIGPIPE, SIG_IGN);  // of the writer, if nobody reads
  const FakeServer server;
  const std::string path = TestPath("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&path, reader = pthread_self(), id = gettid()] {
    std::ofstream file(path, std::ios::binary);
    file << "abc" << std::flush;
    const auto sleeps = [id] {
      std::ifstream stat(absl::StrCat("/proc/self/task/", id, "/stat"));
      std::string field[3];
      stat >> field[0] >> field[1] >> field[2];
      return field[2] == "S";
    };
    for (int i = 0; i < 20; ++i) {
      while (!sleeps()) std::this_thread::yield();
      pthread_kill(reader, SIGUSR1);
    }
    file << "de";
  });
  const auto reply = Connect(server)->AccumulateFile(v1::Spec(), path);
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
  std::signal(SIGPIPE, pipe_before);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Counts(reply->histogram()), Counts(AnswerOf(v1::Spec(), "abcde")));
}

TEST(AccumulateFile, NoSuchFile) {
  const FakeServer server;
  const auto reply = Connect(server)->AccumulateFile(v1::Spec(), "/no/such/file");
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("/no/such/file"));
  EXPECT_EQ(server.seen().calls, 0);
  EXPECT_THAT(std::string(Connect(server)->AccumulateFile({}, "/").status().message()),
              HasSubstr("cannot read /: Is a directory"));
}

}  // namespace
}  // namespace histogram::client
