#include "server/rpc/read_ahead.h"

#include <gtest/gtest.h>

namespace histogram::server {
namespace {

constexpr uint64_t kLarge = kReadAheadBytesMin;

TEST(ReadAhead, StreamsReadUntilTheyHoldTooMuchTogether) {
  ReadAhead all(2 * kLarge);
  ReadAhead::Stream one(all), two(all);
  one.Hold(kLarge);
  EXPECT_TRUE(one.MayRead());
  EXPECT_TRUE(two.MayRead());
  two.Hold(kLarge);
  EXPECT_EQ(all.bytes(), 2 * kLarge);
  EXPECT_FALSE(one.MayRead());
  EXPECT_FALSE(two.MayRead());
  one.LetGo(kLarge);
  EXPECT_TRUE(one.MayRead());
  EXPECT_TRUE(two.MayRead());
  two.LetGo(kLarge);
  EXPECT_EQ(all.bytes(), 0);
}

TEST(ReadAhead, AStreamThatHoldsNothingAlwaysReads) {
  ReadAhead all(kLarge);
  ReadAhead::Stream greedy(all), other(all);
  greedy.Hold(100 * kLarge);
  EXPECT_FALSE(greedy.MayRead());
  EXPECT_TRUE(other.MayRead());
  other.Hold(kLarge);
  EXPECT_FALSE(other.MayRead());
  other.LetGo(kLarge);
  EXPECT_TRUE(other.MayRead());
  greedy.LetGo(100 * kLarge);
}

TEST(ReadAhead, SmallMessagesAreNeitherCountedNorHeldUp) {
  ReadAhead all(kLarge);
  ReadAhead::Stream greedy(all), small(all);
  greedy.Hold(kLarge);
  for (int i = 0; i < 100; ++i) small.Hold(kLarge - 1);
  EXPECT_EQ(all.bytes(), kLarge);
  EXPECT_TRUE(small.MayRead());
  for (int i = 0; i < 100; ++i) small.LetGo(kLarge - 1);
  greedy.LetGo(kLarge);
  EXPECT_EQ(all.bytes(), 0);
}

TEST(ReadAhead, WithoutRoomStreamsTakeOneMessageAtATime) {
  ReadAhead all(0);
  ReadAhead::Stream stream(all);
  EXPECT_TRUE(stream.MayRead());
  stream.Hold(kLarge);
  EXPECT_FALSE(stream.MayRead());
  stream.LetGo(kLarge);
  EXPECT_TRUE(stream.MayRead());
}

}  // namespace
}  // namespace histogram::server
