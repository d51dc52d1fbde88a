#include "server/process_tuning.h"

#include <histogram/usable_cores.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace histogram::server {

void TuneMalloc() {
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  mallopt(M_TOP_PAD, 64 << 20);
  // Memory that was freed is kept by the arena it came from: with glibc's eight arenas a core,
  // large payloads rarely meet memory that is warm, and much more of it stays resident.
  constexpr uint32_t kArenasMin = 2;
  mallopt(M_ARENA_MAX, static_cast<int>(std::max(kArenasMin, UsableCores())));
}

void TuneMutexes() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

void ChoosePolling() { setenv("GRPC_POLL_STRATEGY", "poll,epoll1", /*overwrite=*/0); }

DescriptorLimit RaiseDescriptorLimit() {
  constexpr rlim_t kDescriptorsMax = 1 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, kDescriptorsMax));
  if (limit.rlim_cur == before || setrlimit(RLIMIT_NOFILE, &limit) != 0) return {before, before};
  return {before, limit.rlim_cur};
}

uint32_t StartableThreads(uint32_t wanted) {
  absl::Notification over;
  const auto wait = [](void* notification) -> void* {
    static_cast<absl::Notification*>(notification)->WaitForNotification();
    return nullptr;
  };
  std::vector<pthread_t> threads;
  pthread_t thread{};
  while (threads.size() < wanted && pthread_create(&thread, nullptr, wait, &over) == 0) {
    threads.push_back(thread);
  }
  over.Notify();
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  return static_cast<uint32_t>(threads.size());
}

void DisableCoreDumps() {
  // One byte, not zero: with zero the kernel still feeds a core_pattern that is a pipe; one is too
  // little for a file and the kernel's own sign to leave pipes alone (core(5), fs/coredump.c).
  const rlimit limit{1, 1};
  setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace histogram::server
