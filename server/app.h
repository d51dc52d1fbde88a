// The server put together: backends, batcher, gRPC, metrics, health, and the way down.
#ifndef HISTOGRAM_SERVER_APP_H_
#define HISTOGRAM_SERVER_APP_H_

#include "server/config/config.h"

namespace histogram::server {

// Serves until a stop signal comes, and drains. Returns the process's exit code: 0 after a drain; 1
// if it could not start (the log says why), or ended because a device was lost (--on-device-loss
// exit). Called once, on the main thread, after BlockSignals.
int RunServer(const Config& config);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_APP_H_
