// How much memory the process holds, asked of the kernel and of the allocator.
#ifndef HISTOGRAM_SERVER_BASE_HELD_MEMORY_H_
#define HISTOGRAM_SERVER_BASE_HELD_MEMORY_H_

#include <cstdint>

#include "server/base/receive_memory.h"

namespace histogram::server {

// Bytes that the allocator has given out and not got back. They include neither what it keeps for
// later nor memory that was mapped without it. Takes each arena's lock for some microseconds.
uint64_t AllocatedBytes();

// A cheap look, many times a second.
class HeldMemory {
 public:
  // `receive_memory`: where messages lie beside the allocator's memory, all of it resident; null:
  // nowhere. Outlives this.
  explicit HeldMemory(const ReceiveMemory* receive_memory);
  ~HeldMemory();
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  // AllocatedBytes and the blocks of the receive memory that are taken, but asks the allocator only
  // where more than `enough` is resident; otherwise what is resident.
  uint64_t Bytes(uint64_t enough) const;

 private:
  const ReceiveMemory* const receive_memory_;
  int statm_ = -1;  // /proc/self/statm
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_HELD_MEMORY_H_
