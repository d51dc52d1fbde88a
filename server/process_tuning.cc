#include "server/process_tuning.h"

#include <fcntl.h>
#include <histogram/usable_cores.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/base/logging.h"

namespace histogram::server {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Terminals that close send some of these, and people send others by habit. One that was ignored
  // when the process began, as SIGHUP is under nohup, stays ignored.
  for (const int signal : {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

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

void ChoosePolling() {
  constexpr char kVariable[] = "GRPC_POLL_STRATEGY";
  const char* chosen = std::getenv(kVariable);
  if (chosen == nullptr || *chosen == '\0') setenv(kVariable, "poll,epoll1", /*overwrite=*/1);
}

void OpenStandardDescriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == STDERR_FILENO ? O_RDWR : O_RDONLY);
  }
}

void RaiseDescriptorLimit() {
  constexpr rlim_t kDescriptorsMax = 1 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, kDescriptorsMax));
  if (limit.rlim_cur == before || setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  Log(LogLevel::kInfo, "limit of descriptors", {{"now", limit.rlim_cur}, {"before", before}});
}

uint32_t StartableThreads(uint32_t wanted) {
  absl::Notification over;
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < wanted) threads.emplace_back([&over] { over.WaitForNotification(); });
  } catch (const std::system_error&) {  // no more threads
  }
  over.Notify();
  return static_cast<uint32_t>(threads.size());
}

void DisableCoreDumps() {
  // One byte, not zero: with zero the kernel still feeds a core_pattern that is a pipe; one is too
  // little for a file and the kernel's own sign to leave pipes alone (core(5), fs/coredump.c).
  const rlimit limit{1, 1};
  setrlimit(RLIMIT_CORE, &limit);
}

void BlockSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStopSignal(uint64_t timeout_us) {
  const sigset_t signals = StopSignals();
  const timespec timeout{static_cast<time_t>(timeout_us / 1000000),
                         static_cast<long>(timeout_us % 1000000) * 1000};
  const int signal = sigtimedwait(&signals, nullptr, &timeout);
  return signal > 0 ? signal : 0;
}

}  // namespace histogram::server
