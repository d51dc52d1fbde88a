#include "server/transport/completions.h"

#include <cstddef>

#include "absl/container/inlined_vector.h"

namespace histogram::server {
namespace {

struct Caught {
  Completions::Tag tag = nullptr;
  int ok = 0;
};

struct OfThread {
  absl::InlinedVector<Caught, 8> caught;  // first come, first called
  int left = Completions::kCaughtMax;
  Completions::Tag running = nullptr;
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

Completions::Tag Completions::Close(grpc_completion_queue* queue) {
  void* tag = nullptr;
  int ok = 0;
  if (grpc_completion_queue_thread_local_cache_flush(queue, &tag, &ok) == 0) return nullptr;
  OfThread& own = Own();
  --own.left;
  own.caught.push_back({static_cast<Tag>(tag), ok});
  return own.caught.back().tag;
}

void Completions::Run() {
  OfThread& own = Own();
  if (own.running != nullptr) return;
  for (size_t i = 0; i < own.caught.size(); ++i) {
    const Caught next = own.caught[i];
    own.running = next.tag;
    next.tag->functor_run(next.tag, next.ok);
  }
  own.caught.clear();
  own.left = kCaughtMax;
  own.running = nullptr;
}

Completions::Tag Completions::Running() { return Own().running; }

}  // namespace histogram::server
