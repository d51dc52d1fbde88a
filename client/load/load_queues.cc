#include "client/load/load_queues.h"

#include <algorithm>

namespace histogram::client {

LoadQueues::LoadQueues(size_t connections) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::clamp<size_t>(connections, 1, cores); ++i) {
    grpc::CompletionQueue* const queue =
        queues_.emplace_back(std::make_unique<grpc::CompletionQueue>()).get();
    threads_.emplace_back([queue] {
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) static_cast<LoadEvent*>(tag)->Happened(ok);
    });
  }
}

LoadQueues::~LoadQueues() {
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace histogram::client
