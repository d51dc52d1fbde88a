// The streams that are open, so that a drain can reach them.
#ifndef HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_
#define HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/event_loop.h"

namespace histogram::server {

// A stream that can be told to read no more, answer what it has read, and end UNAVAILABLE.
class DrainableStream : public std::enable_shared_from_this<DrainableStream> {
 public:
  virtual ~DrainableStream() = default;
  // Called by the thread of the stream's loop, perhaps after the stream has ended.
  virtual void Drain() = 0;
};

// Thread-safe. Holds a reference to each stream from Add to Remove.
class StreamRegistry {
 public:
  // A stream that comes after DrainAll is drained soon.
  void Add(const std::shared_ptr<DrainableStream>& stream, EventLoop& loop) {
    absl::MutexLock lock(&mu_);
    streams_.emplace(stream, &loop);
    if (draining_) PostDrain(stream, loop);
  }
  void Remove(const std::shared_ptr<DrainableStream>& stream) {
    absl::MutexLock lock(&mu_);
    streams_.erase(stream);
  }
  // Waits until every stream has ended, or until `timeout` is over; true if all have.
  bool WaitEmpty(absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(
                                    +[](Streams* streams) { return streams->empty(); }, &streams_),
                                timeout);
  }
  // REQUIRES: the server is not yet shut down.
  void DrainAll() {
    absl::MutexLock lock(&mu_);
    draining_ = true;
    for (const auto& [stream, loop] : streams_) PostDrain(stream, *loop);
  }

 private:
  using Streams = absl::flat_hash_map<std::shared_ptr<DrainableStream>, EventLoop*>;

  static void PostDrain(const std::shared_ptr<DrainableStream>& stream, EventLoop& loop) {
    PostFunction(loop, [stream] { stream->Drain(); });
  }

  absl::Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  Streams streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_
