// Ends calls for the memory that they hold: while the process holds too much, calls whose messages
// are not finished; and calls whose clients do not read their replies.
//
// Every call joins from its headers on: gRPC holds half-sent messages, of unary calls too, before
// anybody sees a message. HTTP/2 lets a client ask for as much as it likes and read nothing.
// Without pressure a slow sender is left alone.
//
// A stream that waits for its next message is receiving, too: nobody outside of gRPC can tell
// whether half of the message is there.
#ifndef HISTOGRAM_SERVER_RPC_CALL_GUARD_H_
#define HISTOGRAM_SERVER_RPC_CALL_GUARD_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"
#include "server/base/memory.h"

namespace histogram::server {

// Thread-safe. Outlives its calls.
class CallGuard {
 public:
  // EndReceiving takes the peer that has most receiving calls, and ends one in this many of them.
  static constexpr size_t kEndedShare = 4;
  // After it has ended calls, it looks this many times for their memory before it ends more.
  static constexpr uint32_t kPatience = 10;
  // A call adds its replies to the sum of all in steps of this, so that small ones cost nothing.
  static constexpr uint64_t kStep = 8192;
  // A client does not read if a write takes longer than this, and a second more for each
  // kBytesPerSecondMin bytes that its call holds.
  static constexpr TimeNs kWriteMax = TimeNs{60} * 1000000000;
  static constexpr uint64_t kBytesPerSecondMin = 16384;
  // While replies take more than their limit, this long is enough.
  static constexpr TimeNs kWriteMaxWhenFull = TimeNs{2} * 1000000000;

  class Call;

  // The calls of one event loop. They join and leave on its thread. Others take the lock to end
  // calls: while the process holds too much, and a few times a second while replies are held.
  class Loop {
   public:
    explicit Loop(CallGuard& guard);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

   private:
    friend class CallGuard;
    CallGuard& guard_;
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

    // The call has arrived. It leaves before its context goes, and lets go of what it holds.
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
    // Whether EndReceiving, or EndUnread, has ended the call.
    bool ended() const { return ended_.load(std::memory_order_relaxed); }
    bool unread() const { return unread_.load(std::memory_order_relaxed); }

    const MemoryLedger& ledger() const { return loop_.guard_.ledger_; }
    // Before anything is held. `id`: the same number for calls of one client.
    void SetCaller(uint64_t id) { caller_.store(id, std::memory_order_relaxed); }
    // For a reply of up to `bytes`, before it is made. False where there is no room; nothing is
    // held then.
    bool Hold(uint64_t bytes);
    // The same for what a stream adds up until it ends.
    bool HoldTotals(uint64_t bytes);
    void WriteBegun();
    // The write under way is over, and with it what was held for its reply.
    void Written(uint64_t bytes);
    // Whether the stream may take on another message. One that holds no reply always may; any other
    // is asked again when its reply is written, so that no stream ever waits for another one.
    bool MayRead() const {
      return held_ == totals_.bytes() || ledger().replies.bytes() < ledger().replies.limit();
    }

   private:
    friend class CallGuard;
    // Tells the others what the call holds.
    void Share();

    Loop& loop_;
    grpc::ServerContext* context_ = nullptr;  // while it has joined
    Call *next_ = nullptr, *before_ = nullptr;
    std::atomic<uint64_t> peer_{0}, caller_{0};
    std::atomic<uint64_t> since_{0};  // the number of a look; 0: it is not receiving
    std::atomic<bool> ended_{false}, unread_{false};
    bool writing_ = false;
    Holding totals_{loop_.guard_.ledger_.totals};
    uint64_t held_ = 0;                     // for replies, and totals_
    std::atomic<uint64_t> shared_{0};       // of held_: what the ledger knows
    std::atomic<TimeNs> writing_since_{0};  // while it shares something and is writing; else 0
  };

  // `ledger` outlives this.
  explicit CallGuard(MemoryLedger& ledger, Clock& clock = Clock::Monotonic())
      : ledger_(ledger), clock_(clock) {}
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  struct Ended {
    uint64_t calls = 0;
    uint64_t bytes = 0;  // that the process, or these calls' replies, took
    std::string peer;    // address of the first
  };
  // Ends calls while the process holds too much, but none that began to receive after the look
  // before this one. One thread calls it, some fifty times a second.
  Ended EndReceiving();
  // Ends calls whose clients do not read. While replies take more than their limit, it begins with
  // the client that holds most, its oldest calls first, and spares clients that hold less than half
  // as much. One thread calls it, a few times a second.
  Ended EndUnread();

 private:
  friend class World;  // of the tests
  using Calls = std::vector<Call*>;

  // Ends what `choose` takes of all calls. None joins or leaves while it chooses.
  template <typename Choose>
  Ended End(grpc::StatusCode code, const std::string& why, const Choose& choose);
  Calls ChooseReceiving(const Calls& calls, uint64_t look) const;
  Calls ChooseUnread(const Calls& calls, uint64_t& bytes) const;
  static uint64_t PeerOf(Call& call);

  MemoryLedger& ledger_;
  Clock& clock_;
  std::atomic<uint64_t> looks_{1};
  uint32_t patience_ = 0;  // of EndReceiving's thread: what is left of kPatience

  absl::Mutex mu_;
  std::list<Loop*> loops_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CALL_GUARD_H_
