// The load generator's ways of using the API, against a server of the tests' own.
#include "client/load/load_generator.h"

#include <gmock/gmock.h>
#include <grpcpp/alarm.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/load/load_queues.h"
#include "client/load/load_session.h"
#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

// Holds the thread of a queue: whatever completes meanwhile waits behind it.
class Holdup final : public LoadEvent {
 public:
  explicit Holdup(grpc::CompletionQueue* queue) {
    alarm_.Set(queue, gpr_now(GPR_CLOCK_MONOTONIC), static_cast<LoadEvent*>(this));
    held_.WaitForNotification();
  }
  void Release() { release_.Notify(); }

 private:
  void Happened(bool /*ok*/) override {
    held_.Notify();
    release_.WaitForNotification();
  }

  grpc::Alarm alarm_;
  absl::Notification held_, release_;
};

using MakeLoad = std::unique_ptr<LoadWorker> (*)(LoadContext);

class EachLoad : public ::testing::TestWithParam<MakeLoad> {};

INSTANTIATE_TEST_SUITE_P(Load, EachLoad,
                         ::testing::Values(&MakeUnaryLoad, &MakeStreamLoad, &MakeAccumulateLoad));

TEST_P(EachLoad, MayBeStoppedBeforeItHasStarted) {
  const FakeServer server;
  LoadOptions options;
  options.in_flight = 4;
  const LoadMessages messages("abc");
  LoadTally tally;
  std::vector<std::unique_ptr<RawStub>> stubs;
  stubs.push_back(std::make_unique<RawStub>(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials())));
  const LoadQueues queues(1);
  const auto load = GetParam()({options, messages, tally, stubs, queues});
  tally.StartMeasuring(LoadClock::now());
  Holdup holdup(queues.of(0));
  load->Start();
  load->Stop();
  holdup.Release();
  load->Join();
  const LoadResult result = tally.Collect(nullptr);
  EXPECT_EQ(result.errors, 0);
  EXPECT_LE(result.requests, options.in_flight);
}

}  // namespace
}  // namespace histogram::client
