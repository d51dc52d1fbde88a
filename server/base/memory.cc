#include "server/base/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace histogram::server {
namespace {

// Bytes that the allocator has given out and not got back: without those that it keeps for later,
// and without those that others have mapped. Takes each arena's lock for some microseconds.
uint64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// What is resident, without the free blocks of the receive memory. Where that is more than
// `enough`: AllocatedBytes and the blocks that are taken, which takes longer to find out.
uint64_t HeldBytes(const ReceiveMemory* receive_memory, uint64_t enough) {
  const uint64_t all = receive_memory == nullptr ? 0 : receive_memory->all().size();
  const uint64_t free = receive_memory == nullptr ? 0 : receive_memory->free_bytes();
  if (const auto now = BytesOfProcess(); now && now->resident <= enough + free) {
    return now->resident - std::min(now->resident, free);
  }
  return AllocatedBytes() + all - free;
}

}  // namespace

std::optional<ProcessBytes> BytesOfProcess() {
  static const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::array<char, 128> text{};
  unsigned long long mapped = 0, resident = 0;
  if (pread(statm, text.data(), text.size() - 1, 0) <= 0 ||
      std::sscanf(text.data(), "%llu %llu", &mapped, &resident) != 2) {
    return std::nullopt;
  }
  return ProcessBytes{mapped * page, resident * page};
}

MemoryLedger::MemoryLedger(uint64_t bytes_max, const ReceiveMemory* receive_memory)
    : MemoryLedger(bytes_max, [=](uint64_t enough) { return HeldBytes(receive_memory, enough); }) {}

}  // namespace histogram::server
