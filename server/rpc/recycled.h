// Memory for objects that come and go with every request and are larger than what malloc keeps at
// hand for a thread (1 KiB in glibc; its slow path costs hundreds of instructions).
#ifndef HISTOGRAM_SERVER_RPC_RECYCLED_H_
#define HISTOGRAM_SERVER_RPC_RECYCLED_H_

#include <array>
#include <cstddef>
#include <new>

namespace histogram::server {

// Base of T: a T's memory is kept for the next T that the same thread makes, a bounded number of
// them a thread; the rest goes to malloc. An object may be deleted by another thread than made it.
// AddressSanitizer sees every allocation: with it nothing is kept.
template <typename T>
class Recycled {
 public:
  static void* operator new(size_t size) {
    Kept& kept = ThreadsOwn();
    if (kept.count > 0) return kept.blocks[--kept.count];
    return ::operator new(size);
  }
  static void operator delete(void* block) noexcept {
    Kept& kept = ThreadsOwn();
    if (kept.count < kept.limit) {
      kept.blocks[kept.count++] = block;
    } else {
      ::operator delete(block);
    }
  }

 protected:
  Recycled() = default;
  ~Recycled() = default;

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kKeptMax = 0;
#else
  static constexpr size_t kKeptMax = 32;
#endif

  struct Kept {
    std::array<void*, 32> blocks;
    size_t count = 0;
    size_t limit = kKeptMax;
    ~Kept() {
      limit = 0;  // other objects of the thread may go after this one
      while (count > 0) ::operator delete(blocks[--count]);
    }
  };

  static Kept& ThreadsOwn() {
    static thread_local Kept kept;
    return kept;
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_RECYCLED_H_
