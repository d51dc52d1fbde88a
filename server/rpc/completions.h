// Operations of a call that complete while they are begun, handled by the thread that began them.
//
// A message may have arrived before it is asked for, and a write that gRPC may keep is done at
// once. gRPC puts such a completion into its queue. gRPC's thread-local cache of a completion queue
// (grpc.h, experimental) holds one back for the thread that brought it about: so a stream learns
// whether its next message is there, and goes on with it without a turn through the queue.
//
// Thread-safe: all state is the calling thread's own.
#ifndef HISTOGRAM_SERVER_RPC_COMPLETIONS_H_
#define HISTOGRAM_SERVER_RPC_COMPLETIONS_H_

#include <grpc/grpc.h>

#include "server/rpc/event.h"

namespace histogram::server {

class Completions {
 public:
  // Runs `begin`, which begins one operation of a call of `queue`. If something completed at once,
  // usually that operation, its event is returned and Run will let it happen; else null. A null
  // queue catches nothing.
  // REQUIRES: Run is called soon, on this thread, after all locks that events take are released.
  template <typename Begin>
  static Event* Catch(grpc_completion_queue* queue, Begin&& begin) {
    if (!Open(queue)) {
      begin();
      return nullptr;
    }
    begin();
    return Close(queue);
  }

  // Lets happen all that was caught, and what is caught meanwhile. An event that calls Run itself
  // returns at once. After so many, the others go through gRPC's queue again, so that what
  // else waits there is served.
  static constexpr int kCaughtMax = 64;
  static void Run();

 private:
  static bool Open(grpc_completion_queue* queue);
  static Event* Close(grpc_completion_queue* queue);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_COMPLETIONS_H_
