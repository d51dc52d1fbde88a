// Runs the actions of a stream one at a time, in the order in which they were decided.
//
// gRPC forbids some operations after others, and reactions arrive on any thread. Each stream
// therefore decides under its lock what to do next and lets one thread at a time do it, without the
// lock; a thread that finds another one at it leaves the work to that one.
#ifndef HISTOGRAM_SERVER_TRANSPORT_STREAM_PUMP_H_
#define HISTOGRAM_SERVER_TRANSPORT_STREAM_PUMP_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace histogram::server {

class StreamPump {
 public:
  // `mu` guards the state that `decide` looks at; it outlives this object.
  explicit StreamPump(absl::Mutex& mu) : mu_(mu) {}

  // Calls update() under the lock, and then decide() under the lock and perform(action) without it
  // until decide() has no action (a value that converts to false). The caller keeps the stream
  // alive.
  template <typename Update, typename Decide, typename Perform>
  void Run(Update update, Decide decide, Perform perform) ABSL_LOCKS_EXCLUDED(mu_) {
    mu_.Lock();
    update();
    if (running_) {
      again_ = true;
      mu_.Unlock();
      return;
    }
    running_ = true;
    do {
      again_ = false;
      while (auto action = decide()) {
        mu_.Unlock();
        perform(*action);
        mu_.Lock();
      }
    } while (again_);
    running_ = false;
    mu_.Unlock();
  }

 private:
  absl::Mutex& mu_;
  bool running_ = false;  // guarded by mu_
  bool again_ = false;    // guarded by mu_
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_STREAM_PUMP_H_
