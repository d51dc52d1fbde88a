// The streams that are open, so that a drain can reach them.
#ifndef HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_
#define HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_

#include <memory>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace histogram::server {

// A stream that can be told to read no more, answer what it has read, and end UNAVAILABLE.
class DrainableStream : public std::enable_shared_from_this<DrainableStream> {
 public:
  virtual ~DrainableStream() = default;
  virtual void Drain() = 0;
};

// Thread-safe. Holds a reference to each stream from Add to Remove.
class StreamRegistry {
 public:
  // A stream that comes after DrainAll is drained at once.
  void Add(const std::shared_ptr<DrainableStream>& stream) {
    bool draining = false;
    {
      absl::MutexLock lock(&mu_);
      streams_.insert(stream);
      draining = draining_;
    }
    if (draining) stream->Drain();
  }
  void Remove(const std::shared_ptr<DrainableStream>& stream) {
    absl::MutexLock lock(&mu_);
    streams_.erase(stream);
  }
  // Waits until every stream has ended, or until `timeout` is over; true if all have.
  bool WaitEmpty(absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(
        absl::Condition(
            +[](std::unordered_set<std::shared_ptr<DrainableStream>>* streams) {
              return streams->empty();
            },
            &streams_),
        timeout);
  }
  void DrainAll() {
    std::vector<std::shared_ptr<DrainableStream>> open;
    {
      absl::MutexLock lock(&mu_);
      draining_ = true;
      open.assign(streams_.begin(), streams_.end());
    }
    for (const auto& stream : open) stream->Drain();
  }

 private:
  absl::Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  std::unordered_set<std::shared_ptr<DrainableStream>> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_STREAM_REGISTRY_H_
