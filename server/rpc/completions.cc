#include "server/rpc/completions.h"

#include <grpcpp/impl/codegen/completion_queue_tag.h>

#include <cstddef>

#include "absl/container/inlined_vector.h"

namespace histogram::server {
namespace {

struct Caught {
  Event* event = nullptr;
  bool ok = false;
};

struct OfThread {
  absl::InlinedVector<Caught, 8> caught;  // first come, first called
  int left = Completions::kCaughtMax;
  bool running = false;
};

OfThread& Own() {
  static thread_local OfThread own;
  return own;
}

}  // namespace

bool Completions::Open(grpc_completion_queue* queue) {
  if (queue == nullptr || Own().left == 0) return false;
  grpc_completion_queue_thread_local_cache_init(queue);
  return true;
}

Event* Completions::Close(grpc_completion_queue* queue) {
  void* tag = nullptr;
  int ok = 0;
  if (grpc_completion_queue_thread_local_cache_flush(queue, &tag, &ok) == 0) return nullptr;
  // As the queue itself does with what it hands out.
  bool succeeded = ok != 0;
  if (!static_cast<grpc::internal::CompletionQueueTag*>(tag)->FinalizeResult(&tag, &succeeded)) {
    return nullptr;
  }
  OfThread& own = Own();
  --own.left;
  own.caught.push_back({static_cast<Event*>(tag), succeeded});
  return own.caught.back().event;
}

void Completions::Run() {
  OfThread& own = Own();
  if (own.running) return;
  own.running = true;
  for (size_t i = 0; i < own.caught.size(); ++i) {
    const Caught next = own.caught[i];
    next.event->Happened(next.ok);
  }
  own.caught.clear();
  own.left = kCaughtMax;
  own.running = false;
}

}  // namespace histogram::server
