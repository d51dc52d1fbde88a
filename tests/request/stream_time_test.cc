// A stream's time is the server's, whatever its caller takes. Time is made up here.
#include "server/request/stream_time.h"

#include <gtest/gtest.h>

namespace histogram::server {
namespace {

TEST(StreamTime, ACallerThatThinksBetweenMessagesAndBeforeTheEndCostsNothing) {
  StreamTime time;
  time.Arrived(1'000);
  time.Waits(1'010);
  time.Arrived(5'000'000);
  time.Waits(5'000'020);
  time.Ended(9'000'000);
  EXPECT_EQ(time.SinceLast(9'000'003), 23u);
  EXPECT_EQ(time.Busy(9'000'003), 33u);
}

TEST(StreamTime, WhatIsCountedWhenTheEndComesIsPartOfIt) {
  StreamTime time;
  time.Arrived(100);
  time.Ended(110);
  EXPECT_EQ(time.SinceLast(400), 300u);
  EXPECT_EQ(time.Busy(400), 300u);
}

TEST(StreamTime, MessagesThatOverlapRunFromTheLastOne) {
  StreamTime time;
  time.Arrived(100);
  time.Arrived(150);
  time.Arrived(170);
  EXPECT_EQ(time.SinceLast(200), 30u);
  EXPECT_EQ(time.Busy(200), 100u);
  time.Waits(220);
  EXPECT_EQ(time.SinceLast(90'000), 50u);
  EXPECT_EQ(time.Busy(90'000), 120u);
}

TEST(StreamTime, AStreamWithoutMessagesRunsFromItsEnd) {
  StreamTime time;
  EXPECT_EQ(time.SinceLast(700), 0u);
  time.Ended(1'000'000);
  EXPECT_EQ(time.SinceLast(1'000'004), 4u);
}

TEST(StreamTime, ASecondEndChangesNothing) {
  StreamTime time;
  time.Ended(100);
  time.Ended(200);
  EXPECT_EQ(time.SinceLast(250), 150u);
}

}  // namespace
}  // namespace histogram::server
