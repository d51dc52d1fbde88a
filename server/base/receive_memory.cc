#include "server/base/receive_memory.h"

#include <sys/mman.h>

#include <atomic>

namespace histogram::server {

void* ReceiveMemory::Shelf::Take() {
  const std::lock_guard lock(mu_);
  if (blocks_.empty()) return nullptr;
  void* const block = blocks_.back();
  blocks_.pop_back();
  return block;
}

bool ReceiveMemory::Shelf::Give(void* block, size_t blocks_max) {
  const std::lock_guard lock(mu_);
  if (blocks_.size() >= blocks_max) return false;
  blocks_.push_back(block);
  return true;
}

size_t ReceiveMemory::Shelf::blocks() const {
  const std::lock_guard lock(mu_);
  return blocks_.size();
}

ReceiveMemory::Shelf& ReceiveMemory::OwnShelf() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t thread = threads++;
  return own_[thread % own_.size()];
}

ReceiveMemory::ReceiveMemory(uint64_t bytes) {
  const uint64_t blocks = bytes / kBlockBytes;
  if (blocks == 0) return;
  void* const memory = mmap(nullptr, blocks * kBlockBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  begin_ = static_cast<uint8_t*>(memory);
  bytes_ = blocks * kBlockBytes;
  for (uint64_t i = blocks; i > 0; --i) common_.Give(begin_ + (i - 1) * kBlockBytes, blocks);
}

void* ReceiveMemory::Take(size_t bytes) {
  if (bytes > kBlockBytes || bytes < kBlockBytes / 2) return nullptr;
  if (void* const block = OwnShelf().Take()) return block;
  if (void* const block = common_.Take()) return block;
  for (Shelf& shelf : own_) {
    if (void* const block = shelf.Take()) return block;
  }
  return nullptr;
}

bool ReceiveMemory::Give(void* block) {
  if (block < begin_ || block >= begin_ + bytes_) return false;
  return OwnShelf().Give(block, kOwnBlocks) || common_.Give(block, bytes_ / kBlockBytes);
}

uint64_t ReceiveMemory::free_bytes() const {
  size_t blocks = common_.blocks();
  for (const Shelf& shelf : own_) blocks += shelf.blocks();
  return blocks * kBlockBytes;
}

}  // namespace histogram::server
