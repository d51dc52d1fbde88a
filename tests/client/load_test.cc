// The load generator's ways of using the API, against a server of the tests' own.
#include <gmock/gmock.h>
#include <grpcpp/alarm.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/load/load_generator.h"
#include "client/load/load_session.h"
#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

// Holds the thread of a queue: whatever completes meanwhile waits behind it.
class BusyThread {
 public:
  explicit BusyThread(grpc::CompletionQueue* queue) {
    alarm_.Set(queue, gpr_now(GPR_CLOCK_MONOTONIC), &event_);
    held_.WaitForNotification();
  }
  void Release() { release_.Notify(); }

 private:
  LoadEvent event_ = [this](bool) {
    held_.Notify();
    release_.WaitForNotification();
  };
  grpc::Alarm alarm_;
  absl::Notification held_, release_;
};

// What a load of "abc" over one connection needs.
struct OneConnection {
  OneConnection(const FakeServer& server, LoadOptions with) : options(std::move(with)) {
    stubs.push_back(std::make_unique<RawStub>(MakeBareChannel(server.address(), options.connect)));
    tally.StartMeasuring(LoadClock::now());
  }
  LoadContext context() { return {options, messages, tally, stubs, queues}; }

  const LoadOptions options;
  const LoadMessages messages{"abc"};
  LoadTally tally;
  std::vector<std::unique_ptr<RawStub>> stubs;
  std::deque<LoadQueue> queues{1};
};

// Starts it, and stops it once it has counted some of `what`. Returns all that it counted.
LoadResult RunUntil(LoadWorker& load, LoadTally& tally, uint64_t LoadResult::*what) {
  load.Start();
  while (tally.Collect().*what == 0) absl::SleepFor(absl::Milliseconds(1));
  load.Stop();
  load.Join();
  return tally.Collect();
}

class EachLoad : public ::testing::TestWithParam<LoadApi> {};

INSTANTIATE_TEST_SUITE_P(Load, EachLoad,
                         ::testing::Values(LoadApi::kCompute, LoadApi::kComputeMany,
                                           LoadApi::kAccumulate));

TEST_P(EachLoad, MayBeStoppedBeforeItHasStarted) {
  const FakeServer server;
  LoadOptions options;
  options.api = GetParam();
  options.in_flight = 4;
  OneConnection one(server, options);
  const auto load = GetParam() == LoadApi::kCompute ? MakeUnaryLoad(one.context())
                                                    : MakeStreamLoad(one.context(), 0);
  BusyThread busy(one.context().QueueOf(0));
  load->Start();
  load->Stop();
  busy.Release();
  load->Join();
  const LoadResult result = one.tally.Collect();
  EXPECT_EQ(result.errors, 0);
  EXPECT_LE(result.requests, options.in_flight);
}

TEST(RunLoad, OnlyAWarmUpCanBeInterruptedBeforeTheMeasuredTime) {
  const FakeServer server;
  LoadOptions options;
  options.server = server.address();
  options.payload_bytes = 3;
  options.stop = [] { return true; };
  for (const double warm_up_s : {0.0, 1.0}) {
    options.warm_up_s = warm_up_s;
    const auto result = RunLoad(options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->stopped);
    EXPECT_EQ(result->seconds > 0, warm_up_s == 0);
  }
}

TEST(UnaryLoad, AScheduleOfFewCallsEndsWhenItIsStopped) {
  const FakeServer server;
  for (const double rate : {0.2, 1e-10}) {
    LoadOptions options;
    options.rate_per_second = rate;
    OneConnection one(server, options);
    const auto load = MakeUnaryLoad(one.context());
    EXPECT_EQ(RunUntil(*load, one.tally, &LoadResult::requests).requests, 1) << rate;
  }
}

TEST(StreamLoad, AnErrorForAPayloadIsNoWrongAnswer) {
  const FakeServer server({.bad_payload = "abc"});
  LoadOptions options;
  options.api = LoadApi::kComputeMany;
  OneConnection one(server, options);
  const auto load = MakeStreamLoad(one.context(), 0);
  const LoadResult result = RunUntil(*load, one.tally, &LoadResult::errors);
  EXPECT_EQ(result.requests, 0);
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.error_messages,
            (std::map<std::string, uint64_t>{{"this payload is bad", result.errors}}));
}

TEST(LoadTally, CountsInTheMeasuredTimeOnly) {
  LoadTally tally;
  const grpc::Status refused(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  const auto record = [&] {
    tally.Begun();
    tally.Answered(LoadClock::now(), true);
    tally.Failed(refused, LoadClock::now());
    tally.Failed(grpc::Status(grpc::StatusCode::UNKNOWN, "not begun"));
  };
  record();
  tally.StartMeasuring(LoadClock::now());
  record();
  tally.StopMeasuring();
  record();
  const LoadResult result = tally.Collect();
  EXPECT_EQ(result.begun, 1);
  EXPECT_EQ(result.requests, 1);
  EXPECT_EQ(result.refusals.count(), 1);
  EXPECT_EQ(result.errors, 2);
  tally.StreamFailed(refused);
  tally.Wrong();
  EXPECT_EQ(tally.Collect().errors, 4);
}

// A schedule that the client cannot keep: its delay in the warm-up is none of the measured time.
TEST(UnaryLoad, WhatWasDueBeforeTheMeasuredTimeIsLeftOut) {
  const FakeServer server;
  LoadOptions options;
  options.rate_per_second = 1e9;
  OneConnection one(server, options);
  const auto load = MakeUnaryLoad(one.context());
  one.tally.StopMeasuring();
  load->Start();
  while (server.seen().computes == 0) absl::SleepFor(absl::Milliseconds(1));
  one.tally.StartMeasuring(LoadClock::now());
  while (one.tally.Collect().latency.count() == 0) absl::SleepFor(absl::Milliseconds(1));
  load->Stop();
  load->Join();
  EXPECT_GT(one.tally.Collect().begun, 0);
}

TEST(LoadTally, MessagesThatDifferInNumbersCountTogether) {
  LoadTally tally;
  tally.StartMeasuring(LoadClock::now());
  tally.Failed(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue: 17 of 20"));
  tally.Failed(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue: 5 of 20"));
  tally.Failed(grpc::Status(grpc::StatusCode::INTERNAL, "queue: 5 of 20"));
  tally.Failed(grpc::Status(grpc::StatusCode::INTERNAL, ""));
  EXPECT_EQ(tally.Collect().error_messages,
            (std::map<std::string, uint64_t>{
                {"refused: queue: 17 of 20", 2}, {"queue: 5 of 20", 1}, {"gRPC's status 13", 1}}));
}

}  // namespace
}  // namespace histogram::client
