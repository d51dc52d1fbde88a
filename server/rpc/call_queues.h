// The server's completion queues and the threads that serve them.
//
// Each queue has connections of its own and, at any moment, one thread at it, which receives,
// counts what is small, and answers: no call passes from thread to thread (docs/adr/0012). What
// lanes count they hand back to that thread (Post). gRPC assigns connections to queues in turn.
// That holds where each queue polls its own sockets, as gRPC's strategy "poll" does
// (ChoosePolling); with others it is correct, and slower.
//
// A thread that is about to take long lends its queue to a second one, which serves it meanwhile:
// the next message is received while one is counted. The pattern is known as leader and followers
// (D. Schmidt et al., Leader/Followers, PLoP 2000). Streams, of which more is known to come, leave
// such messages to lanes instead.
#ifndef HISTOGRAM_SERVER_RPC_CALL_QUEUES_H_
#define HISTOGRAM_SERVER_RPC_CALL_QUEUES_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace histogram::server {

// What a thread leaves for the one that serves a queue.
class Posted {
 public:
  virtual ~Posted() = default;
  // Called once for each Post, without any lock. Until then the object stays.
  virtual void Run() = 0;

 private:
  friend class CallQueues;
  Posted* next_ = nullptr;  // in the list that it is in
};

// One of them, as its calls see it. Thread-safe.
class CallQueue {
 public:
  virtual grpc::ServerCompletionQueue& events() = 0;
  // The thread that serves this queue runs `work` soon; called by that thread, at once. So whoever
  // has counted elsewhere, a lane or a thread that has lent the queue, does not wait while a reply
  // is sent, nor contend for the connection with the thread that receives from it. REQUIRES: a call
  // of this queue is open until `work` has run.
  virtual void Post(Posted& work) = 0;
  // A call is awaited in this queue, or ends: gRPC is done with it. The queue outlives its calls.
  virtual void CallBegun() = 0;
  virtual void CallEnded() = 0;

 protected:
  ~CallQueue() = default;
};

class CallQueues {
 public:
  // Adds `count` queues (at least one) to the server that `builder` will build.
  CallQueues(grpc::ServerBuilder& builder, uint32_t count);
  ~CallQueues();  // stops
  CallQueues(const CallQueues&) = delete;
  CallQueues& operator=(const CallQueues&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(queues_.size()); }
  CallQueue& operator[](uint32_t i);

  // Begins to serve: every tag of these queues is an Event.
  void Start();
  // Waits until all calls have ended, and ends the threads. The server has been shut down, so that
  // no call is awaited any more, or was never built.
  void Stop();

  // To be called from within an Event, before so many bytes are counted there or left to a lane.
  // Whether it pays to let another thread count them: it takes longer than to wake one, and no more
  // than half of the queues have had as much to count a moment ago, so that there are cores to
  // spare (docs/notes/measurements.md). Not within an Event: false.
  static bool CoresToSpare(uint64_t bytes);
  // To be called from within an Event, before so many bytes are counted there. Where there are
  // cores to spare and it takes much longer than to wake a thread, the queue that this thread
  // serves is lent. Not within an Event it does nothing. Returns whether the queue was lent by this
  // call.
  static bool LendToCount(uint64_t bytes);
  // Both at a given time, in ns of a clock that does not go back.
  static bool CoresToSpare(uint64_t bytes, int64_t now);
  static bool LendToCount(uint64_t bytes, int64_t now);

 private:
  struct Queue;
  struct Serving;

  void Serve(Queue& queue);
  // How many queues had much to count at `since` or later, by that clock.
  uint32_t CountingSince(int64_t since) const;

  std::vector<std::unique_ptr<Queue>> queues_;
  bool stopped_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CALL_QUEUES_H_
