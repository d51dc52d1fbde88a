// Bounds the replies that clients do not read: HTTP/2 lets a client ask for as much as it likes and
// read nothing. A reply counts from before it is made until it is written.
//
// A call adds what it holds to the sum of all in steps of kStep, so that small replies cost
// nothing.
#ifndef HISTOGRAM_SERVER_RPC_UNWRITTEN_REPLIES_H_
#define HISTOGRAM_SERVER_RPC_UNWRITTEN_REPLIES_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"

namespace histogram::server {

// What the calls of a server hold together. Thread-safe. Streams stop reading above `bytes_max`;
// above twice as much no call may hold more.
class UnwrittenReplies {
 public:
  static constexpr uint64_t kStep = 8192;
  // A client does not read if a write takes longer than this, and a second more for each
  // kBytesPerSecondMin bytes that its call holds.
  static constexpr TimeNs kWriteMax = TimeNs{60} * 1000000000;
  static constexpr uint64_t kBytesPerSecondMin = 16384;
  // While more than `bytes_max` is held, this long is enough.
  static constexpr TimeNs kWriteMaxWhenFull = TimeNs{2} * 1000000000;

  // Cancels a call and returns its peer. Calls nothing of this class.
  using EndCall = std::function<std::string(grpc::ServerContext&)>;
  static std::string CancelCall(grpc::ServerContext& context);

  UnwrittenReplies(uint64_t bytes_max, Clock& clock, EndCall end_call = CancelCall)
      : bytes_max_(bytes_max), clock_(clock), end_call_(std::move(end_call)) {}
  UnwrittenReplies(const UnwrittenReplies&) = delete;
  UnwrittenReplies& operator=(const UnwrittenReplies&) = delete;

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t bytes_max() const { return bytes_max_; }

  // One call's part. Used by one thread at a time; gone before the call's context is.
  class Call {
   public:
    explicit Call(UnwrittenReplies& all) : all_(all) {}
    ~Call() { Leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    const UnwrittenReplies& all() const { return all_; }
    // Before anything else. `caller`: the same number for calls of the same client.
    void Begin(grpc::ServerContext& context, uint64_t caller) {
      context_ = &context;
      caller_ = caller;
    }
    // For a reply of up to `bytes`, before it is made. False where there is no room; nothing is
    // held then.
    bool Hold(uint64_t bytes);
    // For what a stream adds up until it ends. False where the totals of all calls would be more
    // than half of bytes_max: so streams that are idle leave room for replies.
    bool HoldTotals(uint64_t bytes);
    void LetGo(uint64_t bytes);
    void WriteBegun();
    // The write under way is over, and with it what was held for its reply.
    void Written(uint64_t bytes);
    // Gives back all that is left. The context may go.
    void Leave();
    // Whether the stream may take on another message. One that holds no reply always may; any other
    // is asked again when its reply is written, so that no stream ever waits for another one.
    bool MayRead() const { return held_ == totals_ || all_.bytes() < all_.bytes_max_; }

   private:
    friend class UnwrittenReplies;
    void Share();

    UnwrittenReplies& all_;
    grpc::ServerContext* context_ = nullptr;
    uint64_t caller_ = 0;
    uint64_t held_ = 0;
    uint64_t totals_ = 0;  // of held_: until the call ends
    bool writing_ = false;
    bool joined_ = false;
    bool ended_ = false;  // by EndStalled; guarded by its lock
    std::atomic<uint64_t> shared_{0};
    std::atomic<TimeNs> writing_since_{0};  // 0: no write is under way
  };

  struct Ended {
    uint64_t calls = 0;
    uint64_t bytes = 0;
    std::string peer;  // of the first
  };
  // Cancels the calls whose clients do not read. While more than `bytes_max` is held, it begins
  // with the client that holds most, its oldest calls first, and spares clients that hold less than
  // half as much. To be called a few times a second.
  Ended EndStalled();

 private:
  const uint64_t bytes_max_;
  Clock& clock_;
  const EndCall end_call_;
  alignas(128) std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> totals_{0};  // of bytes_
  absl::Mutex mu_;
  std::unordered_set<Call*> calls_ ABSL_GUARDED_BY(mu_);  // that share, or have shared, something
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_UNWRITTEN_REPLIES_H_
