#include "server/batching/credits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

class CreditsTest : public testing::Test {
 protected:
  Flight* Take(int b, TimeNs now) { return credits_.Take(b, ClosedBy::kIdle, now); }
  void GiveBack(Flight* flight) {
    credits_.Return(flight);
    credits_.Recycle(flight);
  }

  PuppetBackend gpu_{{.name = "cuda:0", .lanes = 2}};
  PuppetBackend cpu_{{.name = "cpu", .lanes = 1, .kind = BackendKind::kCpu}};
  Credits credits_{{&gpu_, &cpu_}};
  Outbox outbox_;
};

TEST_F(CreditsTest, AFlightHoldsOneCredit) {
  Flight* first = Take(0, 0);
  EXPECT_EQ(credits_.free(0), 1u);
  Flight* second = Take(0, 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(credits_.free(0), 0u);
  EXPECT_EQ(credits_.busy(0), 2u);
  EXPECT_TRUE(credits_.AnyFree(0));
  EXPECT_FALSE(credits_.AnyFree(0b10)) << "only the other backend has one";
  GiveBack(first);
  EXPECT_EQ(credits_.busy(0), 1u);
  ASSERT_EQ(credits_.flights(0).size(), 1u);
  EXPECT_EQ(credits_.flights(0)[0], second);
  EXPECT_EQ(Take(1, 0), first) << "flights are used again";
}

TEST_F(CreditsTest, KnowsWhenALaneWasLastTaken) {
  Take(0, 100);
  Take(0, 300);
  Take(1, 400);
  EXPECT_EQ(credits_.taken_at(0), 300);
}

TEST_F(CreditsTest, ABackendGoesDownOnceAndForTheFirstReason) {
  EXPECT_EQ(credits_.Refresh(outbox_), BackendMask{0b11});
  EXPECT_TRUE(outbox_.downs.empty());
  credits_.MarkDown(0, kWatchdog, outbox_);
  gpu_.Lose();
  EXPECT_EQ(credits_.Refresh(outbox_), BackendMask{0b10});
  EXPECT_FALSE(credits_.usable(0));
  EXPECT_FALSE(credits_.AnyFree(0b10)) << "the lanes of a lost backend count for nothing";
  ASSERT_EQ(outbox_.downs.size(), 1u);
  EXPECT_EQ(outbox_.downs[0].backend, 0);
  EXPECT_EQ(outbox_.downs[0].reason, kWatchdog);
  cpu_.Lose();
  EXPECT_FALSE(credits_.usable(1)) << "before anybody noted it";
  EXPECT_EQ(credits_.Refresh(outbox_), BackendMask{0});
  ASSERT_EQ(outbox_.downs.size(), 2u);
  EXPECT_EQ(outbox_.downs[1].reason, kDeviceLost);
}

TEST_F(CreditsTest, TheRateIsThatOfTheLanesThatAreLeft) {
  EXPECT_DOUBLE_EQ(credits_.BytesPerNs(), 3) << "three lanes, of which nothing is known";
  TestJob job(3900);  // charged 4000
  Flight* flight = Take(0, 0);
  flight->Add({.job = &job, .bytes = job.bytes});
  credits_.Learn(*flight, 1000);
  EXPECT_DOUBLE_EQ(credits_.BytesPerNs(), 2 * 4 + 1);
  credits_.MarkDown(0, kWatchdog, outbox_);
  EXPECT_DOUBLE_EQ(credits_.BytesPerNs(), 1);
  credits_.MarkDown(1, kWatchdog, outbox_);
  EXPECT_GT(credits_.BytesPerNs(), 0) << "it is divided by";
}

}  // namespace
}  // namespace histogram::server
