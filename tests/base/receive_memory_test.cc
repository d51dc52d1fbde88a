#include "server/base/receive_memory.h"

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace histogram::server {
namespace {

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
