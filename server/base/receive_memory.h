// Memory that connections are read into and that a GPU reads in place: one stretch, cut into blocks
// of one size.
//
// It is never given back to the system: a GPU that hangs may still read it.
#ifndef HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_
#define HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace histogram::server {

// Thread-safe.
class ReceiveMemory {
 public:
  // What gRPC 1.51 reads into: 64 KiB with a header in front, made a multiple of 128 bytes.
  static constexpr size_t kBlockBytes = (size_t{64} << 10) + 128;

  // Maps so many bytes, which take no memory until they are written. Has no blocks where the system
  // refuses.
  explicit ReceiveMemory(uint64_t bytes);
  ReceiveMemory(const ReceiveMemory&) = delete;
  ReceiveMemory& operator=(const ReceiveMemory&) = delete;

  // A block, which the caller owns; nullptr where none is free, and for sizes that do not fit or
  // would waste more than half of one. Preferably one that this thread gave: its core's cache may
  // still hold it.
  void* Take(size_t bytes);
  // False for what is none of its blocks.
  bool Give(void* block);

  std::span<uint8_t> all() const { return {begin_, bytes_}; }
  uint64_t free_bytes() const;

 private:
  // Free blocks; the last one given is taken first.
  class alignas(128) Shelf {
   public:
    void* Take();
    bool Give(void* block, size_t blocks_max);  // false: it has as many
    size_t blocks() const;

   private:
    mutable std::mutex mu_;  // absl's costs more than what it guards
    std::vector<void*> blocks_;
  };
  // A thread's shelf holds 4 MiB. With one shelf for all, 1 MiB over 32 connections costs 1.02 to
  // 1.25 of the CPU time at 0.8 to 1.0 of the rate (two hosts of four H200, at c46ded59). With all
  // blocks on threads' shelves 16 MiB costs 1.1 of it at 0.93: a thread's spare blocks then lie
  // unused while another's connection reads into memory that no cache holds.
  static constexpr size_t kOwnBlocks = 64;
  Shelf& OwnShelf();

  uint8_t* begin_ = nullptr;
  uint64_t bytes_ = 0;
  Shelf common_;
  std::array<Shelf, 64> own_;  // threads beyond 64 share them
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_RECEIVE_MEMORY_H_
