// Whether the system lets this process have the threads and descriptors that it needs.
#ifndef HISTOGRAM_CLIENT_THREADS_H_
#define HISTOGRAM_CLIENT_THREADS_H_

#include <cstddef>

#include "absl/status/status.h"

namespace histogram::client {

// Threads that gRPC starts for itself. Without them its calls wait for ever.
inline constexpr size_t kGrpcThreads = 6;

// RESOURCE_EXHAUSTED unless the process can start `wanted` threads beside those that it has. Starts
// them, and ends them again. Thread-safe.
absl::Status CheckThreads(size_t wanted);

// Descriptors that gRPC opens for a client. Without them it ends the process.
inline constexpr size_t kGrpcDescriptors = 8;

// RESOURCE_EXHAUSTED unless the process can open `wanted` descriptors beside those that it has.
// Opens them, and closes them again. Thread-safe.
absl::Status CheckDescriptors(size_t wanted);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_THREADS_H_
