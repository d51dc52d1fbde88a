// histogram, also installed as histogram-client: the command line over kernels and client library.
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/app.h"
#include "client/cli/arguments.h"
#include "client/cli/render/text.h"

namespace {

// The program has two names, and calls itself as its user does.
std::string ProgramName(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name == "histogram" ? "histogram" : "histogram-client";
}

std::vector<std::string> EnvironmentNames() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has seen enough (head, a pager) ends the program without a word, as it does
  // cat's.
  std::signal(SIGPIPE, SIG_DFL);
  // gRPC's own log would tell each error a second time.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Chunks of a megabyte come and go all the time: keep their memory.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  // Where Abseil was built without NDEBUG its mutexes, gRPC's among them, look for deadlocks at
  // each lock, under a spin lock that all of them share.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::ios::sync_with_stdio(false);
  histogram::cli::Environment env = {
      STDIN_FILENO,
      std::cout,
      std::cerr,
      histogram::cli::DetectTerminal(STDOUT_FILENO),
      histogram::cli::DetectTerminal(STDERR_FILENO),
      ProgramName(argv[0]),
      // The load generator's threads each wait for the connections of their own queue. gRPC reads
      // this when it starts.
      [] { setenv("GRPC_POLL_STRATEGY", "poll,epoll1", 0); },
  };
  for (const std::string& warning : histogram::cli::SuspiciousVariables(EnvironmentNames())) {
    std::cerr << env.program << ": " << histogram::cli::SafeText(warning) << "\n";
  }
  int code = histogram::cli::Run(std::vector<std::string>(argv + 1, argv + argc), env);
  if (!std::cout.flush()) {
    // The stream does not keep the reason; another write has it, too.
    const bool now_it_works = write(STDOUT_FILENO, "\n", 1) == 1;
    std::cerr << env.program << ": cannot write to standard output: "
              << (now_it_works ? "a part of it is missing" : strerror(errno)) << "\n";
    code = histogram::cli::kFailure;
  }
  std::cerr.flush();
  // gRPC's threads still run: nothing that they use may be destroyed.
  std::_Exit(code);
}
