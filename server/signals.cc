#include "server/signals.h"

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace histogram::server {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Some are sent by terminals that close and by habit. One that was ignored when the process
  // began, as nohup does with SIGHUP, stays ignored.
  for (const int signal : {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

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
