#include "server/rpc/unwritten_replies.h"

#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/batching/fake_clock.h"

namespace histogram::server {
namespace {

constexpr uint64_t kStep = UnwrittenReplies::kStep;
constexpr int64_t kSecond = 1'000'000'000;

class UnwrittenRepliesTest : public testing::Test {
 protected:
  struct Client {
    explicit Client(UnwrittenReplies& all, uint64_t caller) : call(all) {
      call.Begin(context, caller);
    }
    grpc::ServerContext context;
    UnwrittenReplies::Call call;
  };
  std::unique_ptr<Client> NewClient(uint64_t caller) {
    return std::make_unique<Client>(all_, caller);
  }
  // A reply that nobody reads.
  std::unique_ptr<Client> Stalled(uint64_t caller, uint64_t bytes) {
    auto client = NewClient(caller);
    EXPECT_TRUE(client->call.Hold(bytes));
    client->call.WriteBegun();
    return client;
  }
  bool Ended(const Client& client) const {
    for (const grpc::ServerContext* context : ended_) {
      if (context == &client.context) return true;
    }
    return false;
  }

  FakeClock clock_;
  std::vector<const grpc::ServerContext*> ended_;
  UnwrittenReplies all_{8 * kStep, clock_, [this](grpc::ServerContext& context) {
                          ended_.push_back(&context);
                          return std::string("peer");
                        }};
};

TEST_F(UnwrittenRepliesTest, NoCallHoldsMoreThanTwiceTheLimit) {
  const auto one = NewClient(1), other = NewClient(2);
  EXPECT_TRUE(one->call.Hold(16 * kStep));
  EXPECT_FALSE(other->call.Hold(kStep));
  one->call.LetGo(16 * kStep);
  EXPECT_TRUE(other->call.Hold(kStep));
  EXPECT_EQ(all_.bytes(), kStep);
}

TEST_F(UnwrittenRepliesTest, AStreamReadsWhileItOwesNoReply) {
  const auto one = NewClient(1), reader = NewClient(2), adder = NewClient(3);
  ASSERT_TRUE(adder->call.HoldTotals(2 * kStep));
  ASSERT_TRUE(one->call.Hold(8 * kStep));
  // Nothing of its own would wake it once there is room again.
  EXPECT_TRUE(adder->call.MayRead());
  EXPECT_TRUE(reader->call.MayRead());
  ASSERT_TRUE(adder->call.Hold(10));
  EXPECT_FALSE(adder->call.MayRead());
  adder->call.Written(10);
  EXPECT_TRUE(adder->call.MayRead());
}

TEST_F(UnwrittenRepliesTest, TotalsLeaveRoomForReplies) {
  const auto one = NewClient(1);
  EXPECT_FALSE(one->call.HoldTotals(4 * kStep + 1));
  EXPECT_TRUE(one->call.HoldTotals(4 * kStep));
  const auto other = NewClient(2);
  EXPECT_FALSE(other->call.HoldTotals(1));
  one->call.Leave();
  EXPECT_EQ(all_.bytes(), 0u);
  EXPECT_TRUE(other->call.HoldTotals(1));
}

TEST_F(UnwrittenRepliesTest, UnreadRepliesLeaveRoomForTotals) {
  const auto unread = Stalled(1, 7 * kStep);
  const auto adder = NewClient(2);
  EXPECT_TRUE(adder->call.HoldTotals(4 * kStep));
}

TEST_F(UnwrittenRepliesTest, ASlowReaderIsLeftAloneForAMinute) {
  const auto slow = Stalled(1, 2 * kStep);
  clock_.AdvanceNs(61 * kSecond);  // a second more for its 16 KiB
  EXPECT_EQ(all_.EndStalled().calls, 0u);
  clock_.AdvanceNs(1);
  const UnwrittenReplies::Ended ended = all_.EndStalled();
  EXPECT_EQ(ended.calls, 1u);
  EXPECT_EQ(ended.bytes, 2 * kStep);
  EXPECT_EQ(ended.peer, "peer");
  EXPECT_EQ(all_.EndStalled().calls, 0u) << "ended twice";
}

TEST_F(UnwrittenRepliesTest, WhenFullWhoHoldsMostIsEndedFirst) {
  const auto greedy1 = Stalled(1, 4 * kStep), greedy2 = Stalled(1, 4 * kStep);
  const auto modest = Stalled(2, 2 * kStep);
  EXPECT_EQ(all_.EndStalled().calls, 0u) << "they have had no time to read";
  clock_.AdvanceNs(UnwrittenReplies::kWriteMaxWhenFull + 1);
  EXPECT_EQ(all_.EndStalled().calls, 1u);
  EXPECT_FALSE(Ended(*modest));
}

}  // namespace
}  // namespace histogram::server
