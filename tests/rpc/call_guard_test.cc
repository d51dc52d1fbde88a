// CallGuard over calls of a real server. What the process holds is what the test says; time passes
// by EndReceiving, and by a clock of the test.
#include "server/rpc/call_guard.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/address.h"
#include "tests/batching/fake_clock.h"

namespace histogram::server {
namespace {

constexpr uint64_t kLimit = 1000;
constexpr uint64_t kStep = CallGuard::kStep;
constexpr int64_t kSecond = 1'000'000'000;

// A call that has arrived, at both of its ends.
struct OpenCall {
  explicit OpenCall(CallGuard::Loop& loop) : guarded(loop) {}
  bool ended() const { return guarded.ended(); }

  grpc::ClientContext client;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> caller;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  CallGuard::Call guarded;  // leaves before the context goes
};

class CallGuardTest : public testing::Test {
 protected:
  explicit CallGuardTest(uint64_t limit = kLimit)
      : memory_(limit, [this](uint64_t) { return held_; }) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    arrivals_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    stub_.emplace(server_->InProcessChannel({}));
  }
  ~CallGuardTest() override {
    for (OpenCall& call : calls_) call.client.TryCancel();
    server_->Shutdown(std::chrono::system_clock::now());
    arrivals_->Shutdown();
    answers_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (arrivals_->Next(&tag, &ok)) {
    }
    while (answers_.Next(&tag, &ok)) {
    }
  }

  // A call of `peer` that awaits a message from now on.
  OpenCall& Receiving(uint64_t peer) {
    OpenCall& call = calls_.emplace_back(loop_);
    service_.RequestCall(&call.context, &call.stream, arrivals_.get(), arrivals_.get(), &call);
    call.caller = stub_->PrepareCall(&call.client, "/a/b", &answers_);
    call.caller->StartCall(nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(arrivals_->Next(&tag, &ok) && ok);
    EXPECT_EQ(tag, &call);
    call.guarded.Join(call.context);
    call.guarded.SetPeer(peer);
    call.guarded.Receiving();
    return call;
  }
  std::vector<OpenCall*> Receiving(uint64_t peer, int count) {
    std::vector<OpenCall*> calls;
    for (int i = 0; i < count; ++i) calls.push_back(&Receiving(peer));
    return calls;
  }
  // Of each call in order, whether it was ended.
  static std::vector<bool> Ended(const std::vector<OpenCall*>& calls) {
    std::vector<bool> ended;
    for (const OpenCall* call : calls) ended.push_back(call->ended());
    return ended;
  }
  // The status that the client gets.
  grpc::Status StatusOf(OpenCall& call) {
    grpc::Status status;
    call.caller->Finish(&status, &status);
    void* tag = nullptr;
    bool ok = false;
    while (tag != &status && answers_.Next(&tag, &ok)) {
    }
    return status;
  }
  // Until calls that receive now may be ended.
  void PassALook() {
    held_ = 0;
    guard_.EndReceiving();
  }
  CallGuard::Ended LookUnderPressure() {
    held_ = kLimit + 1;
    return guard_.EndReceiving();
  }

  uint64_t held_ = 0;
  FakeClock clock_;
  MemoryLedger memory_;
  CallGuard guard_{memory_, clock_};
  CallGuard::Loop loop_{guard_};
  grpc::AsyncGenericService service_;
  grpc::CompletionQueue answers_;
  std::unique_ptr<grpc::ServerCompletionQueue> arrivals_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<grpc::GenericStub> stub_;
  std::list<OpenCall> calls_;
};

TEST_F(CallGuardTest, WithoutPressureASlowSenderIsLeftAlone) {
  const OpenCall& call = Receiving(1);
  held_ = kLimit;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(guard_.EndReceiving().calls, 0U);
  EXPECT_FALSE(call.ended());
}

TEST_F(CallGuardTest, TheClientIsToldWhyItsCallEnds) {
  OpenCall& call = Receiving(1);
  PassALook();
  const CallGuard::Ended ended = LookUnderPressure();
  EXPECT_EQ(ended.calls, 1U);
  EXPECT_EQ(ended.bytes, kLimit + 1);
  EXPECT_EQ(ended.peer, PeerAddress(call.context.peer()));
  const grpc::Status status = StatusOf(call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(),
            "the server holds 1001 bytes of unfinished messages; the limit is 1000 "
            "(receive_bytes_max); try again later");
}

TEST_F(CallGuardTest, WhoBeganToReceiveSinceTheLastLookIsLeftAlone) {
  const OpenCall& call = Receiving(1);
  EXPECT_EQ(LookUnderPressure().calls, 0U);
  EXPECT_FALSE(call.ended());
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  EXPECT_TRUE(call.ended());
}

TEST_F(CallGuardTest, ThePeerWithMostCallsGoesFirst) {
  const auto few = Receiving(1, 3);
  const auto most = Receiving(2, 4);
  const auto others = Receiving(3, 3);
  PassALook();
  EXPECT_EQ(LookUnderPressure().calls, 1U);  // a quarter
  EXPECT_THAT(Ended(few), testing::Each(false));
  EXPECT_THAT(Ended(most), testing::Contains(true).Times(1));
  EXPECT_THAT(Ended(others), testing::Each(false));
}

TEST_F(CallGuardTest, OfThatPeerTheOldestGoFirst) {
  const auto calls = Receiving(1, 8);
  // From the last that came to the first, so that age and order of arrival differ.
  for (int i = 7; i >= 0; --i) {
    calls[static_cast<size_t>(i)]->guarded.Receiving();
    PassALook();
  }
  EXPECT_EQ(LookUnderPressure().calls, 2U);
  EXPECT_THAT(Ended(calls),
              testing::ElementsAre(false, false, false, false, false, false, true, true));
}

TEST_F(CallGuardTest, AFinishedMessageIsNeverEnded) {
  const auto finished = Receiving(1, 8);
  for (OpenCall* call : finished) call->guarded.Received();
  PassALook();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(LookUnderPressure().calls, 0U);
  // Nor do finished ones make their peer the one with most.
  const OpenCall& other = Receiving(2);
  PassALook();
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  EXPECT_TRUE(other.ended());
  EXPECT_THAT(Ended(finished), testing::Each(false));
}

TEST_F(CallGuardTest, WhoHasLeftIsNotEnded) {
  OpenCall& gone = Receiving(1);
  PassALook();
  gone.guarded.Leave();
  EXPECT_EQ(LookUnderPressure().calls, 0U);
  EXPECT_FALSE(gone.ended());
}

TEST_F(CallGuardTest, EndedCallsHaveTimeToGiveTheirMemoryBack) {
  const auto calls = Receiving(1, 4);
  PassALook();
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  for (uint32_t i = 1; i < CallGuard::kPatience; ++i) EXPECT_EQ(LookUnderPressure().calls, 0U);
  EXPECT_EQ(LookUnderPressure().calls, 1U);
}

TEST_F(CallGuardTest, OnceTheyHaveOthersAreEndedAtOnce) {
  const auto calls = Receiving(1, 4);
  PassALook();
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  for (OpenCall* call : calls) {
    if (call->ended()) call->guarded.Leave();
  }
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  EXPECT_THAT(Ended(calls), testing::Contains(true).Times(2));
}

TEST_F(CallGuardTest, WithoutANumberThePeerIsTheHost) {
  const auto nameless = Receiving(0, 3);  // all come from the same place
  const auto named = Receiving(1, 2);
  PassALook();
  EXPECT_EQ(LookUnderPressure().calls, 1U);
  EXPECT_THAT(Ended(nameless), testing::Contains(true).Times(1));
  EXPECT_THAT(Ended(named), testing::Each(false));
}

// Replies may take eight steps.
class UnreadTest : public CallGuardTest {
 protected:
  UnreadTest() : CallGuardTest(32 * kStep) {}
  CallGuard::Call& Of(uint64_t caller) {
    OpenCall& call = Receiving(0);
    call.guarded.SetCaller(caller);
    return call.guarded;
  }
  // A reply that nobody reads.
  CallGuard::Call& Stalled(uint64_t caller, uint64_t bytes) {
    CallGuard::Call& call = Of(caller);
    EXPECT_TRUE(call.Hold(bytes));
    call.WriteBegun();
    return call;
  }
};

TEST_F(UnreadTest, AStreamReadsWhileItOwesNoReply) {
  CallGuard::Call &one = Of(1), &reader = Of(2), &adder = Of(3);
  ASSERT_TRUE(adder.HoldTotals(2 * kStep));
  ASSERT_TRUE(one.Hold(8 * kStep));
  // Nothing of its own would wake it once there is room again.
  EXPECT_TRUE(adder.MayRead());
  EXPECT_TRUE(reader.MayRead());
  ASSERT_TRUE(adder.Hold(10));
  EXPECT_FALSE(adder.MayRead());
  adder.Written(10);
  EXPECT_TRUE(adder.MayRead());
}

TEST_F(UnreadTest, TotalsLeaveRoomForReplies) {
  CallGuard::Call &one = Of(1), &other = Of(2);
  EXPECT_FALSE(one.HoldTotals(4 * kStep + 1));
  EXPECT_TRUE(one.HoldTotals(4 * kStep));
  EXPECT_FALSE(other.HoldTotals(1));
  one.Leave();
  EXPECT_EQ(memory_.replies.bytes(), 0u);
  EXPECT_TRUE(other.HoldTotals(1));
}

TEST_F(UnreadTest, UnreadRepliesLeaveRoomForTotals) {
  Stalled(1, 7 * kStep);
  EXPECT_TRUE(Of(2).HoldTotals(4 * kStep));
}

TEST_F(UnreadTest, ASlowReaderIsLeftAloneForAMinute) {
  Stalled(1, 2 * kStep);
  clock_.AdvanceNs(61 * kSecond);  // a second more for its 16 KiB
  EXPECT_EQ(guard_.EndUnread().calls, 0u);
  clock_.AdvanceNs(1);
  const std::string peer = PeerAddress(calls_.front().context.peer());
  const CallGuard::Ended ended = guard_.EndUnread();
  EXPECT_EQ(ended.calls, 1u);
  EXPECT_EQ(ended.bytes, 2 * kStep);
  EXPECT_EQ(ended.peer, peer);
  EXPECT_EQ(guard_.EndUnread().calls, 0u) << "ended twice";
  EXPECT_EQ(StatusOf(calls_.front()).error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(UnreadTest, WhenFullWhoHoldsMostIsEndedFirst) {
  Stalled(1, 4 * kStep);
  Stalled(1, 4 * kStep);
  const CallGuard::Call& modest = Stalled(2, 2 * kStep);
  EXPECT_EQ(guard_.EndUnread().calls, 0u) << "they have had no time to read";
  clock_.AdvanceNs(CallGuard::kWriteMaxWhenFull + 1);
  EXPECT_EQ(guard_.EndUnread().calls, 1u);
  EXPECT_FALSE(modest.unread());
}

}  // namespace
}  // namespace histogram::server
