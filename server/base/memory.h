// The ledger of the memory that callers make the server hold: its classes and their limits.
//
//   receiving   messages that gRPC has, in part or whole. Limit: receive_bytes_max; then calls end
//               (1).
//   read_ahead  large messages of streams. receive_bytes_max / 8; then streams stop reading (2).
//   replies     replies from before they are made until they are written, and totals.
//               receive_bytes_max / 4; then (2) holds and calls end (1). At / 2 calls are refused.
//   totals      sums of Accumulate, a part of replies. / 8; then calls are refused.
//   http        bodies over HTTP and their replies. / 2; then bodies are refused.
//   the queue   payloads, plans, counters and replies of what is queued or executes.
//               queue_bytes_max; then jobs wait or are refused (3).
//
// (1) server/rpc/call_guard.h says which. (2) A stream reads on only while it holds none of it.
// (3) server/batching/admission.h: the batcher's lock guards the amount.
//
// Streams leave small messages out, and calls add small replies to the sum of all in steps. So
// cores that count small payloads seldom wait for each other here.
#ifndef HISTOGRAM_SERVER_BASE_MEMORY_H_
#define HISTOGRAM_SERVER_BASE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/base/receive_memory.h"
#include "server/base/thresholds.h"

namespace histogram::server {

// What the process has mapped, and what of it is resident. Keeps its file open from the first call
// on. Thread-safe.
struct ProcessBytes {
  uint64_t mapped = 0, resident = 0;
};
// Nothing where the system does not tell.
std::optional<ProcessBytes> BytesOfProcess();

// What all holders have of one class together. Thread-safe.
class MemoryClass {
 public:
  // Hold and LetGo leave amounts below `least` out.
  explicit MemoryClass(uint64_t limit, uint64_t least = 1) : limit_(limit), least_(least) {}
  MemoryClass(const MemoryClass&) = delete;
  MemoryClass& operator=(const MemoryClass&) = delete;

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  uint64_t least() const { return least_; }

  void Add(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void Subtract(uint64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Adds nothing and returns false where it would be more than the limit.
  bool TryAdd(uint64_t bytes) {
    if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_) return true;
    Subtract(bytes);
    return false;
  }

 private:
  const uint64_t limit_, least_;
  alignas(128) std::atomic<uint64_t> bytes_{0};  // on cache lines of its own
};

// What one holder has of a class; it gives the rest back at its end. Not thread-safe.
class Holding {
 public:
  explicit Holding(MemoryClass& of) : of_(of) {}
  ~Holding() { LetGo(bytes_); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  uint64_t bytes() const { return bytes_; }
  void Hold(uint64_t bytes) {
    if (bytes < of_.least()) return;
    bytes_ += bytes;
    of_.Add(bytes);
  }
  // False where the class has no room; nothing more is held then.
  bool TryHold(uint64_t bytes) {
    if (!of_.TryAdd(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void LetGo(uint64_t bytes) {
    if (bytes < of_.least()) return;
    bytes_ -= bytes;
    of_.Subtract(bytes);
  }
  // Whether the holder may take on more. One that holds nothing always may; any other asks again
  // when it lets go. So none ever waits for another one.
  bool MayTake() const { return bytes_ == 0 || of_.bytes() < of_.limit(); }

 private:
  MemoryClass& of_;
  uint64_t bytes_ = 0;
};

// Thread-safe, but for Begin.
class MemoryLedger {
 public:
  // `held_bytes(enough)` returns what the process holds. It may return more, up to `enough`.
  MemoryLedger(uint64_t bytes_max, std::function<uint64_t(uint64_t)> held_bytes)
      : receive_bytes_max(bytes_max), held_bytes_(std::move(held_bytes)) {}
  // Asks the kernel and the allocator. `receive_memory`: where messages lie beside the allocator's
  // memory, all of it resident; null: nowhere. Outlives this.
  MemoryLedger(uint64_t bytes_max, const ReceiveMemory* receive_memory);

  // What the process holds from now on is for calls. Called before the first one.
  void Begin() { at_start_ = held_bytes_(0); }
  // The class receiving. It is measured: so it has what gRPC needs beside the bytes, and no sum of
  // our own drifts. Cheap enough for many looks a second.
  uint64_t receiving() const {
    const uint64_t held = held_bytes_(receive_bytes_max);
    const uint64_t others = at_start_ + replies.bytes() + http->bytes();
    return held > others ? held - others : 0;
  }

  const uint64_t receive_bytes_max;
  // The rest is for one message of each stream and what gRPC has received of the next. Of smaller
  // messages a stream holds few bytes, and to add them up would make cores wait for each other.
  MemoryClass read_ahead{receive_bytes_max / 8, kReadAheadBytesMin};
  MemoryClass replies{receive_bytes_max / 4};
  // Half of what replies may take: so streams that are idle leave room for replies.
  MemoryClass totals{receive_bytes_max / 8};
  // No less than the largest payload. A lane that hangs may keep a body for longer than the ledger.
  const std::shared_ptr<MemoryClass> http = std::make_shared<MemoryClass>(receive_bytes_max / 2);

 private:
  const std::function<uint64_t(uint64_t)> held_bytes_;
  uint64_t at_start_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_MEMORY_H_
