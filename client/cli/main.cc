// histogram, also installed as histogram-client: the command line over kernels and client library.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/commands/commands.h"
#include "client/cli/files.h"

// Set before main, and before the constructors of other sources.
constinit bool has_standard_input = true;

// The next file that is opened would take the number of a standard descriptor that is closed.
void OpenStandardDescriptors() {
  has_standard_input = fcntl(STDIN_FILENO, F_GETFD) >= 0;
  int fd = 0;
  // Reading and writing fail then, as with the closed descriptor, and so does opening /dev/stdin.
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/", O_PATH);
  if (fd > STDERR_FILENO) close(fd);
}

// Before the constructors of libraries, of which gRPC's opens descriptors.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeAll)() = OpenStandardDescriptors;

int main(int argc, char** argv) {
  // A reader that has seen enough (head, a pager) ends the program without a word, as it does
  // cat's.
  std::signal(SIGPIPE, SIG_DFL);
  // A file that becomes shorter while it is mapped: what was there is gone.
  std::signal(SIGBUS, [](int) {
    constexpr std::string_view kCut = "histogram: a file was cut off while it was read\n";
    (void)!write(STDERR_FILENO, kCut.data(), kCut.size());
    _exit(histogram::cli::kFailure);
  });
  // A file that grows beyond the process's limit is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // An empty variable counts as not set. gRPC would end the process for it.
  const char* const strategy = std::getenv("GRPC_POLL_STRATEGY");
  if (strategy != nullptr && *strategy == '\0') unsetenv("GRPC_POLL_STRATEGY");
  // gRPC's own log would tell each error a second time.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Where Abseil was built without NDEBUG its mutexes, gRPC's among them, look for deadlocks at
  // each lock, under a spin lock that all of them share.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The program has two names, and calls itself as its user does.
  const std::string_view path = argv[0];
  const bool short_name = path.substr(path.rfind('/') + 1) == "histogram";
  std::ostringstream out;
  histogram::cli::Environment env = {
      has_standard_input ? STDIN_FILENO : -1,
      out,
      std::cerr,
      histogram::cli::ColumnsOf(STDOUT_FILENO),
      short_name ? "histogram" : "histogram-client",
  };
  int code = histogram::cli::Run(std::vector<std::string>(argv + 1, argv + argc), env);
  // The standard streams would not write all where the descriptor is in non-blocking mode.
  if (!histogram::cli::WriteFully(STDOUT_FILENO, out.str())) {
    std::cerr << env.program << ": cannot write to standard output: " << strerror(errno) << "\n";
    code = histogram::cli::kFailure;
  }
  // gRPC's threads still run: nothing that they use may be destroyed.
  std::_Exit(code);
}
