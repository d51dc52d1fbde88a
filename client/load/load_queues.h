// The completion queues of a load generator and their threads. A connection belongs to one queue,
// so that all that happens to it happens on one thread: callbacks on gRPC's own threads cost the
// client one and a half times to four times the CPU time (docs/notes/measurements.md).
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_QUEUES_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_QUEUES_H_

#include <grpcpp/completion_queue.h>

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace histogram::client {

// What a queue hands back: every tag that is given to gRPC is one of these, as a LoadEvent*.
class LoadEvent {
 public:
  // The operation is over; `ok` as the operation defines it. Called on the queue's thread.
  virtual void Happened(bool ok) = 0;

 protected:
  ~LoadEvent() = default;
};

// An event that is a member of what it happens to, and calls one of its functions.
template <typename Owner, void (Owner::*kThen)(bool ok)>
class LoadEventOf final : public LoadEvent {
 public:
  explicit LoadEventOf(Owner& owner) : owner_(owner) {}
  void Happened(bool ok) override { (owner_.*kThen)(ok); }
  void* tag() { return static_cast<LoadEvent*>(this); }

 private:
  Owner& owner_;
};

class LoadQueues {
 public:
  // A queue for each connection, but no more than the machine has cores.
  explicit LoadQueues(size_t connections);
  // REQUIRES: no operation is under way.
  ~LoadQueues();
  LoadQueues(const LoadQueues&) = delete;
  LoadQueues& operator=(const LoadQueues&) = delete;

  grpc::CompletionQueue* of(size_t connection) const {
    return queues_[connection % queues_.size()].get();
  }

 private:
  std::vector<std::unique_ptr<grpc::CompletionQueue>> queues_;
  std::vector<std::thread> threads_;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_QUEUES_H_
