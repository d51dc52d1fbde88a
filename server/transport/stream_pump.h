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
  // `mu` guards the state that the stream's Decide looks at; it outlives this object.
  explicit StreamPump(absl::Mutex& mu) : mu_(mu) {}

  // Calls update(), which changes the stream's state, under the lock; then stream.Decide() under
  // the lock and stream.Perform(action) without it, until Decide has no action. The caller keeps
  // the stream alive. The analysis cannot see that the stream's lock is the pump's.
  template <typename Stream, typename Update>
  void Run(Stream& stream, Update update) ABSL_NO_THREAD_SAFETY_ANALYSIS {
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
      while (auto action = stream.Decide()) {
        mu_.Unlock();
        stream.Perform(*action);
        mu_.Lock();
      }
    } while (again_);
    running_ = false;
    mu_.Unlock();
  }
  // The same where the state was changed before.
  template <typename Stream>
  void Run(Stream& stream) {
    Run(stream, [] {});
  }

 private:
  absl::Mutex& mu_;
  bool running_ = false;  // guarded by mu_
  bool again_ = false;    // guarded by mu_
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_STREAM_PUMP_H_
