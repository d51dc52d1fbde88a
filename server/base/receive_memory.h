// Memory that connections are read into and that a GPU reads in place: one stretch, cut into blocks
// of one size.
//
// It is never given back to the system: a GPU that hangs may still read it.
#ifndef HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_
#define HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace histogram::server {

// Thread-safe.
class ReceiveMemory {
 public:
  // What gRPC 1.51 reads into, 64 KiB and a header in front of it, a multiple of 128 bytes.
  static constexpr size_t kBlockBytes = (size_t{64} << 10) + 128;

  // Maps so many bytes, which take no memory until they are written. Has no blocks where the system
  // refuses.
  explicit ReceiveMemory(uint64_t bytes);
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  // A block, which the caller owns; nullptr where none is free, and for sizes that do not fit or
  // would waste more than half of one.
  void* Take(size_t bytes);
  // False for what is none of its blocks.
  bool Give(void* block);

  std::span<uint8_t> all() const { return {begin_, bytes_}; }
  uint64_t free_bytes() const;

 private:
  uint8_t* begin_ = nullptr;
  uint64_t bytes_ = 0;
  mutable std::mutex mu_;    // absl's costs more than what it guards
  std::vector<void*> free_;  // guarded by mu_; the last one given is taken first
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_
