// The completion queues of a load generator and their threads. A connection belongs to one queue,
// so one thread handles all its events. Callbacks on gRPC's own threads take 1.5 to 4 times the CPU
// time (docs/notes/measurements.md).
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_QUEUES_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_QUEUES_H_

#include <grpcpp/completion_queue.h>

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace histogram::client {

// An event of a queue. Every tag that gRPC gets is a LoadEvent*.
class LoadEvent {
 public:
  // The operation is over; gRPC defines `ok` for each operation. Runs on the queue's thread.
  virtual void Happened(bool ok) = 0;

 protected:
  ~LoadEvent() = default;
};

// An event that is a member of its owner, and calls a function of the owner.
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
  // One queue for each connection, but at most one for each core of the machine.
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
