// Operations of a call that complete while they are begun, handled by the thread that began them.
//
// A message may have arrived before it is asked for, and a write that gRPC may keep is done at
// once. gRPC puts such a completion into its queue and wakes a thread for it, and with more than
// one core two threads then take turns at the payloads of one stream. gRPC's thread-local cache of
// a completion queue (grpc.h, experimental) holds one completion back for the thread that brought
// it about; with it a stream whose messages are there is handled by one thread.
//
// Where gRPC does not use such a queue for its callbacks, nothing is ever held back, and gRPC calls
// as it always does. Thread-safe: all state is the calling thread's own.
#ifndef HISTOGRAM_SERVER_TRANSPORT_COMPLETIONS_H_
#define HISTOGRAM_SERVER_TRANSPORT_COMPLETIONS_H_

#include <grpc/grpc.h>

namespace histogram::server {

class Completions {
 public:
  // Names an operation: gRPC's own tag of it.
  using Tag = grpc_completion_queue_functor*;

  // Runs `begin`, which begins one operation of a call of `queue`. If something completed at once,
  // usually that operation, its tag is returned and Run will call it; else null.
  // REQUIRES: Run is called soon, on this thread, after all locks that callbacks take are released.
  template <typename Begin>
  static Tag Catch(grpc_completion_queue* queue, Begin&& begin) {
    if (!Open(queue)) {
      begin();
      return nullptr;
    }
    begin();
    return Close(queue);
  }

  // Calls back for all that was caught, and for what is caught meanwhile. A callback that calls Run
  // itself returns at once. After so many, the others go through gRPC's queue again, so that what
  // else waits there is served.
  static constexpr int kCaughtMax = 64;
  static void Run();

  // Of the callback that Run is in on this thread; null if it is not in one.
  static Tag Running();

 private:
  static bool Open(grpc_completion_queue* queue);
  static Tag Close(grpc_completion_queue* queue);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_COMPLETIONS_H_
