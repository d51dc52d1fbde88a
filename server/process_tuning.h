// Settings of the process as a whole: memory and locks, on which the speed of the transport hangs,
// and crashes.
#ifndef HISTOGRAM_SERVER_PROCESS_TUNING_H_
#define HISTOGRAM_SERVER_PROCESS_TUNING_H_

#include <cstdint>

namespace histogram::server {

// Keeps freed memory for the next message instead of giving it back to the kernel after each one:
// received slices are allocated and freed at the rate of the wire. See docs/TUNING.md for the
// effect. Call before threads start.
void TuneMalloc();

// Turns off the search for deadlocks that Abseil's mutexes, gRPC's among them, make at each lock
// where Abseil was built without NDEBUG, as Debian's packages are: it takes a spin lock that all
// mutexes of the process share.
void TuneMutexes();

// Has gRPC's threads each wait for the sockets of its own queue (poll(2)), rather than take turns
// at those of the process (epoll): what EventLoops builds on. GRPC_POLL_STRATEGY in the environment
// wins; "epoll1" pays from a few hundred connections a thread on (docs/TUNING.md). Call before gRPC
// starts.
void ChoosePolling();

// How many descriptors the process may have, sockets above all: the soft limit is raised to the
// hard one, at most to a million. A service manager's usual soft limit, 1,024, is there for
// programs that use select(2).
struct DescriptorLimit {
  uint64_t before = 0, now = 0;
};
DescriptorLimit RaiseDescriptorLimit();

// How many threads the process could start now, on top of those that it has; tries up to `wanted`,
// and ends them again.
uint32_t StartableThreads(uint32_t wanted);

// A crash leaves no core dump behind, neither as a file nor through a handler: it would hold
// payload bytes.
void DisableCoreDumps();

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_PROCESS_TUNING_H_
