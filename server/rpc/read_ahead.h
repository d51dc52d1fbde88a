// Bounds how much the streams of a server read ahead. Messages that wait to be counted would
// otherwise take the memory in which others are received.
#ifndef HISTOGRAM_SERVER_RPC_READ_AHEAD_H_
#define HISTOGRAM_SERVER_RPC_READ_AHEAD_H_

#include <atomic>
#include <cstdint>

#include "server/base/thresholds.h"

namespace histogram::server {

// What the streams hold together: large messages that came and are not yet counted. Small ones are
// left out: a stream holds few of them, and adding them up here would make cores wait for each
// other. Thread-safe.
class ReadAhead {
 public:
  explicit ReadAhead(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t bytes_max() const { return bytes_max_; }

  // One stream's part. Not thread-safe. REQUIRES: it holds nothing when it is destroyed.
  class Stream {
   public:
    explicit Stream(ReadAhead& all) : all_(all) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // A message of `bytes` came, or was counted.
    void Hold(uint64_t bytes) {
      if (bytes < kReadAheadBytesMin) return;
      bytes_ += bytes;
      all_.bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    void LetGo(uint64_t bytes) {
      if (bytes < kReadAheadBytesMin) return;
      bytes_ -= bytes;
      all_.bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    }

    // Whether the stream may receive another message. One that holds nothing always may; any other
    // is asked again when it lets go, so that no stream ever waits for another one.
    bool MayRead() const { return bytes_ == 0 || all_.bytes() < all_.bytes_max(); }

   private:
    ReadAhead& all_;
    uint64_t bytes_ = 0;
  };

 private:
  const uint64_t bytes_max_;
  // Written with each large message: on cache lines of its own.
  alignas(128) std::atomic<uint64_t> bytes_{0};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_READ_AHEAD_H_
