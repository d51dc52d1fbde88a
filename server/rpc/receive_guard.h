// Bounds what gRPC holds of messages that are not finished: half-sent ones, of unary calls too,
// before anybody sees a message.
//
// Every call joins from its headers on. While the process holds more than `bytes_max`, Look ends
// calls that are receiving, the oldest of the peer that has most of them. The allocator says how
// much is held. So that includes what gRPC needs beside the bytes, and no sum of our own drifts.
// Without pressure a slow sender is left alone.
//
// A stream that waits for its next message is receiving, too: nobody outside of gRPC can tell
// whether half of the message is there.
#ifndef HISTOGRAM_SERVER_RPC_RECEIVE_GUARD_H_
#define HISTOGRAM_SERVER_RPC_RECEIVE_GUARD_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace histogram::server {

// Where a call comes from, as people write it: "192.0.2.1:40000", "[::1]:40000", "unix". `uri` is
// gRPC's way to write it: "ipv4:192.0.2.1:40000", "ipv6:%5B::1%5D:40000", "unix:/run/socket".
std::string PeerAddress(const std::string& uri);

// Thread-safe. Outlives its calls.
class ReceiveGuard {
 public:
  // A Look takes the peer that has most receiving calls, and ends one in this many of them.
  static constexpr size_t kEndedShare = 4;
  // After it has ended calls, the guard waits this many Looks for their memory before it ends more.
  static constexpr uint32_t kPatience = 10;

  class Call;

  // The calls of one event loop. They join and leave on its thread. Nobody else takes the lock,
  // except while the process holds too much.
  class Loop {
   public:
    explicit Loop(ReceiveGuard& guard);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

   private:
    friend class ReceiveGuard;
    ReceiveGuard& guard_;
    std::mutex mu_;          // absl's costs a small call more than what it guards
    Call* first_ = nullptr;  // guarded by mu_
  };

  // One call's part. Used by the thread of its loop.
  class Call {
   public:
    explicit Call(Loop& loop) : loop_(loop) {}
    ~Call() { Leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // The call has arrived. It leaves before its context goes.
    void Join(grpc::ServerContext& context);
    void Leave();
    // `id`: the same number for all calls of one peer, not 0. Without it the peer is the host that
    // the call came from, and all clients of a unix socket are one peer.
    void SetPeer(uint64_t id) { peer_.store(id, std::memory_order_relaxed); }
    // A message is awaited from now on; it is there, or will not come.
    void Receiving() {
      since_.store(loop_.guard_.looks_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    void Received() { since_.store(0, std::memory_order_relaxed); }
    // Whether Look has ended the call.
    bool ended() const { return ended_.load(std::memory_order_relaxed); }

   private:
    friend class ReceiveGuard;
    Loop& loop_;
    grpc::ServerContext* context_ = nullptr;  // while it has joined
    Call *next_ = nullptr, *before_ = nullptr;
    std::atomic<uint64_t> peer_{0};
    std::atomic<uint64_t> since_{0};  // the number of a Look; 0: it is not receiving
    std::atomic<bool> ended_{false};
  };

  // `held_bytes` says what the process holds now; it is called by Look.
  ReceiveGuard(uint64_t bytes_max, std::function<uint64_t()> held_bytes)
      : bytes_max_(bytes_max), held_bytes_(std::move(held_bytes)) {}
  ReceiveGuard(const ReceiveGuard&) = delete;
  ReceiveGuard& operator=(const ReceiveGuard&) = delete;

  struct Ended {
    uint64_t calls = 0;
    uint64_t held_bytes = 0;
    std::string peer;  // address of the first
  };
  // Ends calls while the process holds too much, but none that began to receive after the Look
  // before this one. One thread calls it, some fifty times a second.
  Ended Look();

 private:
  static uint64_t PeerOf(Call& call);
  // Calls see(Call&) for each call, with the lock of its loop.
  template <typename See>
  void ForEachCall(const See& see);

  const uint64_t bytes_max_;
  const std::function<uint64_t()> held_bytes_;
  std::atomic<uint64_t> looks_{1};
  uint32_t patience_ = 0;  // of Look's thread: what is left of kPatience

  absl::Mutex mu_;
  std::list<Loop*> loops_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_RECEIVE_GUARD_H_
