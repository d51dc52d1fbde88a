#include "server/base/receive_memory.h"

#include <sys/mman.h>

namespace histogram::server {

ReceiveMemory::ReceiveMemory(uint64_t bytes) {
  const uint64_t blocks = bytes / kBlockBytes;
  if (blocks == 0) return;
  void* const memory = mmap(nullptr, blocks * kBlockBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  begin_ = static_cast<uint8_t*>(memory);
  bytes_ = blocks * kBlockBytes;
  free_.reserve(blocks);
  for (uint64_t i = blocks; i > 0; --i) free_.push_back(begin_ + (i - 1) * kBlockBytes);
}

void* ReceiveMemory::Take(size_t bytes) {
  if (bytes > kBlockBytes || bytes < kBlockBytes / 2) return nullptr;
  const std::lock_guard lock(mu_);
  if (free_.empty()) return nullptr;
  void* const block = free_.back();
  free_.pop_back();
  return block;
}

bool ReceiveMemory::Give(void* block) {
  if (block < begin_ || block >= begin_ + bytes_) return false;
  const std::lock_guard lock(mu_);
  free_.push_back(block);
  return true;
}

uint64_t ReceiveMemory::free_bytes() const {
  const std::lock_guard lock(mu_);
  return free_.size() * kBlockBytes;
}

}  // namespace histogram::server
