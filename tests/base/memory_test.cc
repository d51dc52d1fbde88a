#include "server/base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/receive_memory.h"

namespace histogram::server {
namespace {

constexpr uint64_t kLarge = kReadAheadBytesMin;

class ReadAheadTest : public testing::Test {
 protected:
  MemoryClass all_{2 * kLarge, kLarge};
};

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

constexpr size_t kSlice = (size_t{64} << 10) + 40;

TEST(ReceiveMemoryTest, GivesEachBlockToOneOwner) {
  ReceiveMemory memory(10 * ReceiveMemory::kBlockBytes + 5);
  EXPECT_EQ(memory.all().size(), 10 * ReceiveMemory::kBlockBytes);
  std::set<void*> blocks;
  for (int i = 0; i < 10; ++i) {
    void* const block = memory.Take(kSlice);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(block, memory.all().data());
    EXPECT_LE(static_cast<uint8_t*>(block) + ReceiveMemory::kBlockBytes,
              memory.all().data() + memory.all().size());
    EXPECT_TRUE(blocks.insert(block).second);
  }
  EXPECT_EQ(memory.free_bytes(), 0U);
  EXPECT_EQ(memory.Take(kSlice), nullptr);
  EXPECT_TRUE(memory.Give(*blocks.begin()));
  EXPECT_EQ(memory.free_bytes(), ReceiveMemory::kBlockBytes);
  EXPECT_EQ(memory.Take(kSlice), *blocks.begin());
}

TEST(ReceiveMemoryTest, AThreadTakesWhatAnotherGave) {
  constexpr size_t kBlocks = 200;  // more than a thread keeps for itself
  ReceiveMemory memory(kBlocks * ReceiveMemory::kBlockBytes);
  std::vector<void*> blocks(kBlocks);
  const auto take_all = [&] { std::ranges::generate(blocks, [&] { return memory.Take(kSlice); }); };
  take_all();
  for (void* block : blocks) EXPECT_TRUE(memory.Give(block));
  EXPECT_EQ(memory.free_bytes(), memory.all().size());
  std::thread(take_all).join();
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), kBlocks);
  EXPECT_EQ(std::ranges::count(blocks, nullptr), 0);
}

TEST(ReceiveMemoryTest, LeavesOtherSizesAndOtherMemoryAlone) {
  ReceiveMemory memory(10 * ReceiveMemory::kBlockBytes);
  EXPECT_EQ(memory.Take(8 << 10), nullptr);
  EXPECT_EQ(memory.Take(ReceiveMemory::kBlockBytes + 1), nullptr);
  void* const other = std::malloc(kSlice);
  EXPECT_FALSE(memory.Give(other));
  std::free(other);
  EXPECT_EQ(memory.free_bytes(), memory.all().size());
}

TEST(ReceiveMemoryTest, WithoutBytesHasNoBlocks) {
  ReceiveMemory memory(0);
  EXPECT_EQ(memory.Take(kSlice), nullptr);
  EXPECT_TRUE(memory.all().empty());
  EXPECT_FALSE(memory.Give(&memory));
}

TEST(ReceiveMemoryTest, ServesThreads) {
  ReceiveMemory memory(64 * ReceiveMemory::kBlockBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 1000; ++i) {
        auto* const block = static_cast<uint8_t*>(memory.Take(kSlice));
        ASSERT_NE(block, nullptr);
        block[i] = static_cast<uint8_t>(t);  // TSan sees it where two have the block
        ASSERT_TRUE(memory.Give(block));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.free_bytes(), memory.all().size());
}

}  // namespace
}  // namespace histogram::server
