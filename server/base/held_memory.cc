#include "server/base/held_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace histogram::server {

uint64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

HeldMemory::HeldMemory(const ReceiveMemory* receive_memory)
    : receive_memory_(receive_memory), statm_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

HeldMemory::~HeldMemory() {
  if (statm_ >= 0) close(statm_);
}

uint64_t HeldMemory::Bytes(uint64_t enough) const {
  const uint64_t all = receive_memory_ == nullptr ? 0 : receive_memory_->all().size();
  const uint64_t free = receive_memory_ == nullptr ? 0 : receive_memory_->free_bytes();
  std::array<char, 128> text{};
  unsigned long long resident_pages = 0;
  if (pread(statm_, text.data(), text.size() - 1, 0) > 0 &&
      std::sscanf(text.data(), "%*u %llu", &resident_pages) == 1) {
    const uint64_t resident = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    if (resident <= enough + free) return resident - std::min(resident, free);
  }
  return AllocatedBytes() + all - free;
}

}  // namespace histogram::server
