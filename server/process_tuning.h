// Settings of the process as a whole: memory and locks, on which the speed of the transport
// depends; descriptors, threads, crashes and signals.
#ifndef HISTOGRAM_SERVER_PROCESS_TUNING_H_
#define HISTOGRAM_SERVER_PROCESS_TUNING_H_

#include <cstdint>

namespace histogram::server {

// Keeps freed memory for the next message instead of giving it back to the kernel after each one:
// received slices are allocated and freed at the rate of the wire. One arena a core took the memory
// resident under overload from 413 to 160 MiB. Call before threads start.
void TuneMalloc();

// Turns off Abseil's search for deadlocks. Where Abseil was built without NDEBUG, as Debian's
// packages are, each of its mutexes, gRPC's among them, searches at each lock, and takes a spin
// lock that all of them share.
void TuneMutexes();

// Has each of gRPC's threads wait for the sockets of its own queue (poll(2)), rather than take
// turns at those of the process (epoll): EventLoops builds on that. GRPC_POLL_STRATEGY in the
// environment wins; "epoll1" pays from a few hundred connections a thread on (docs/TUNING.md). Call
// before gRPC starts. gRPC ends the process for a name that it does not know, and says so.
void ChoosePolling();

// Opens /dev/null at those of the descriptors 0 to 2 that are closed: else the next file or socket
// would get their numbers, and the text written to standard error. Writing to standard output still
// fails. Call before anything opens one.
void OpenStandardDescriptors();

// Raises the soft limit of open descriptors, which are sockets above all, to the hard one, at most
// to a million, and logs it. The usual soft limit, 1,024, is there for programs that use select(2).
void RaiseDescriptorLimit();

// How many threads the process can start now, beside those that it has, up to `wanted`. Starts
// them, and ends them again.
uint32_t StartableThreads(uint32_t wanted);

// A crash leaves no core dump behind, neither as a file nor through a handler: it would hold
// payload bytes.
void DisableCoreDumps();

// Holds back the signals that end the server, so that only WaitForStopSignal takes them: SIGTERM,
// SIGINT, and SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 unless they are ignored. Call before the first
// thread starts.
void BlockSignals();

// The signal that came within `timeout_us`, 0 if none did. REQUIRES: BlockSignals.
int WaitForStopSignal(uint64_t timeout_us);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_PROCESS_TUNING_H_
