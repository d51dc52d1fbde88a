#include "server/base/memory.h"

#include "gtest/gtest.h"

namespace histogram::server {
namespace {

constexpr uint64_t kLarge = kReadAheadBytesMin;

class ReadAheadTest : public testing::Test {
 protected:
  MemoryClass all_{2 * kLarge, kLarge};
};

TEST_F(ReadAheadTest, StreamsReadUntilTheyHoldTooMuchTogether) {
  Holding one(all_), two(all_);
  one.Hold(kLarge);
  EXPECT_TRUE(one.MayTake());
  EXPECT_TRUE(two.MayTake());
  two.Hold(kLarge);
  EXPECT_EQ(all_.bytes(), 2 * kLarge);
  EXPECT_FALSE(one.MayTake());
  EXPECT_FALSE(two.MayTake());
  one.LetGo(kLarge);
  EXPECT_TRUE(one.MayTake());
  EXPECT_TRUE(two.MayTake());
}

TEST_F(ReadAheadTest, AStreamThatHoldsNothingAlwaysReads) {
  Holding greedy(all_), other(all_);
  greedy.Hold(100 * kLarge);
  EXPECT_FALSE(greedy.MayTake());
  EXPECT_TRUE(other.MayTake());
  other.Hold(kLarge);
  EXPECT_FALSE(other.MayTake());
  other.LetGo(kLarge);
  EXPECT_TRUE(other.MayTake());
}

TEST_F(ReadAheadTest, SmallMessagesAreNeitherCountedNorHeldUp) {
  Holding greedy(all_), small(all_);
  greedy.Hold(2 * kLarge);
  for (int i = 0; i < 100; ++i) small.Hold(kLarge - 1);
  EXPECT_EQ(all_.bytes(), 2 * kLarge);
  EXPECT_TRUE(small.MayTake());
  for (int i = 0; i < 100; ++i) small.LetGo(kLarge - 1);
  EXPECT_EQ(all_.bytes(), 2 * kLarge);
}

TEST(HoldingTest, WithoutRoomTakesOneAtATime) {
  MemoryClass none(0);
  Holding stream(none);
  EXPECT_TRUE(stream.MayTake());
  EXPECT_FALSE(stream.TryHold(1));
  stream.Hold(1);
  EXPECT_FALSE(stream.MayTake());
  stream.LetGo(1);
  EXPECT_TRUE(stream.MayTake());
}

TEST(HoldingTest, GivesTheRestBackAtItsEnd) {
  MemoryClass all(10);
  {
    Holding one(all), two(all);
    EXPECT_TRUE(one.TryHold(10));
    EXPECT_FALSE(two.TryHold(1));
    one.LetGo(4);
    EXPECT_TRUE(two.TryHold(4));
  }
  EXPECT_EQ(all.bytes(), 0u);
}

TEST(LedgerTest, WhatIsReceivedLeavesOutWhatHasAnotherLimit) {
  uint64_t process = 100;
  MemoryLedger ledger(1000, [&](uint64_t) { return process; });
  ledger.Begin();
  EXPECT_EQ(ledger.receiving(), 0u);
  process = 1000;
  ledger.replies.Add(50);
  ledger.http->Add(20);
  EXPECT_EQ(ledger.receiving(), 1000u - 100 - 50 - 20);
}

TEST(LedgerTest, CountsBlocksThatAreTaken) {
  ReceiveMemory memory(10 * ReceiveMemory::kBlockBytes);
  const MemoryLedger ledger(/*bytes_max=*/0, &memory);
  const uint64_t before = ledger.receiving();
  void* const block = memory.Take(ReceiveMemory::kBlockBytes);
  const uint64_t with_block = ledger.receiving();
  EXPECT_TRUE(memory.Give(block));
  EXPECT_EQ(with_block - before, ReceiveMemory::kBlockBytes);
  EXPECT_EQ(ledger.receiving(), before);
}

}  // namespace
}  // namespace histogram::server
