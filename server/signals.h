// The signals that end the server: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2.
#ifndef HISTOGRAM_SERVER_SIGNALS_H_
#define HISTOGRAM_SERVER_SIGNALS_H_

#include <cstdint>

namespace histogram::server {

// Holds them back, so that only WaitForStopSignal takes them. Call before the first thread starts.
void BlockSignals();

// The signal that came within `timeout_us`, 0 if none did. REQUIRES: BlockSignals.
int WaitForStopSignal(uint64_t timeout_us);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SIGNALS_H_
