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
// (D. Schmidt et al., Leader/Followers, PLoP 2000).
#ifndef HISTOGRAM_SERVER_TRANSPORT_CALL_QUEUES_H_
#define HISTOGRAM_SERVER_TRANSPORT_CALL_QUEUES_H_

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
  // The thread that serves this queue runs `work` soon. Within an event of this queue it runs at
  // once, on the calling thread, also while the queue is lent. So a lane does not wait while a
  // reply is sent, nor contend for the connection with the thread that receives from it. REQUIRES:
  // a call of this queue is open until `work` has run.
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

  // To be called from within an Event, before so many bytes are counted there. Where that takes
  // longer than another thread takes to wake, the queue that this thread serves is lent, unless
  // more than half of the queues have counted as much a moment ago: then there are no cores to
  // spare (docs/TUNING.md). Not within an Event it does nothing. Returns whether the queue was lent
  // by this call.
  static bool LendToCount(uint64_t bytes);
  // The same at a given time, in ns of a clock that does not go back.
  static bool LendToCount(uint64_t bytes, int64_t now);

 private:
  struct Queue;
  struct Serving;

  void Serve(Queue& queue);
  // How many queues counted much in place at `since` or later, by that clock.
  uint32_t CountingSince(int64_t since) const;

  std::vector<std::unique_ptr<Queue>> queues_;
  bool stopped_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_CALL_QUEUES_H_
