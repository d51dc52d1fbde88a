#include "server/rpc/overlap.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace histogram::server {
namespace {

// Of `messages` that come while `others` wait: how many are handed over.
int HandedOver(Overlap& overlap, int messages, size_t others) {
  int handed_over = 0;
  for (int i = 0; i < messages; ++i) handed_over += overlap.Arrived(others) ? 1 : 0;
  return handed_over;
}

TEST(Overlap, OfMessagesThatComeAloneTheSecondIsTriedAndThenOneInSoMany) {
  Overlap overlap;
  EXPECT_FALSE(overlap.Arrived(0)) << "it may be the only one";
  EXPECT_TRUE(overlap.Arrived(0));
  EXPECT_EQ(HandedOver(overlap, Overlap::kTryEvery - 1, 0), 0);
  EXPECT_TRUE(overlap.Arrived(0));
  EXPECT_EQ(HandedOver(overlap, 100 * Overlap::kTryEvery, 0), 100);
}

TEST(Overlap, EveryMessageThatMeetsAnotherIsHandedOver) {
  Overlap overlap;
  EXPECT_EQ(HandedOver(overlap, 100, 1), 100);
  EXPECT_EQ(HandedOver(overlap, 100, 63), 100);
}

TEST(Overlap, WhatWasSeenHoldsForAWhile) {
  Overlap overlap;
  overlap.Arrived(0);
  overlap.Arrived(1);
  EXPECT_EQ(HandedOver(overlap, Overlap::kMemory - 1, 0), static_cast<int>(Overlap::kMemory) - 1);
  EXPECT_LE(HandedOver(overlap, Overlap::kTryEvery, 0), 1);
}

// Counted in place each is answered before the next is looked at; handed over, the next finds it.
TEST(Overlap, AClientThatSendsOnIsFoundOut) {
  Overlap overlap;
  bool before = false;
  int handed_over = 0;
  for (int i = 0; i < 1000; ++i) {
    before = overlap.Arrived(before ? 1 : 0);
    handed_over += before ? 1 : 0;
  }
  EXPECT_EQ(handed_over, 999) << "all but the first";
}

}  // namespace
}  // namespace histogram::server
