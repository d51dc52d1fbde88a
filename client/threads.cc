#include "client/threads.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace histogram::client {

absl::Status CheckThreads(size_t wanted) {
  absl::Notification over;
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  try {
    while (threads.size() < wanted) {
      threads.emplace_back([&over] { over.WaitForNotification(); });
    }
  } catch (const std::system_error&) {
    // The system allows no more.
  }
  over.Notify();
  for (std::thread& thread : threads) thread.join();
  if (threads.size() == wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system lets this process have ", threads.size(), " more threads of the ", wanted,
      " that it needs: raise the limit of processes (ulimit -u, pids limit of a "
      "container)"));
}

absl::Status CheckDescriptors(size_t wanted) {
  std::vector<int> files;
  while (files.size() < wanted) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0) break;
    files.push_back(file);
  }
  for (const int file : files) close(file);
  if (files.size() == wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system lets this process open ", files.size(), " more files and sockets of the ", wanted,
      " that it needs: raise the limit of open files (ulimit -n)"));
}

}  // namespace histogram::client
