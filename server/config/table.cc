// The settings themselves. See settings.h for what the columns mean.
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/workload.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

using enum ReadAs;
using enum Listed;

constexpr uint64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;
constexpr uint64_t kMillisecond = 1000, kSecond = 1000000, kHour = 3600 * kSecond;
constexpr uint64_t kDay = 24 * kHour;
// gRPC counts message sizes in a signed 32-bit integer, and a message is a little more than its
// payload.
constexpr uint64_t kPayloadBytesMax = 2 * kGiB - 4 * kMiB;

// A member whose values are named one by one: an enum, or a bool.
template <typename T>
uint8_t* Choice(T& member) {
  static_assert(sizeof(T) == sizeof(uint8_t));
  return reinterpret_cast<uint8_t*>(&member);
}

// A line for the name and limits of a setting, one for its member, and its help.
// clang-format off
constexpr Setting kSettings[] = {
    {.group = "Network", .name = "listen",
     .member = [](Config& c) -> Member { return &c.transport.listen; },
     .help = "where to serve: HOST:PORT, [V6]:PORT or unix:PATH, port 0 for any free one; repeat "
             "the flag to serve at several places; 0.0.0.0:PORT for callers on other machines, "
             "with --tls-cert"},
    {.name = "metrics-listen", .as = kAddress,
     .member = [](Config& c) -> Member { return &c.metrics_listen; },
     .help = "where to serve /metrics, /healthz and /readyz over HTTP; not on loopback if "
             "Prometheus or probes come over the network"},
    {.name = "http-listen", .as = kAddress,
     .member = [](Config& c) -> Member { return &c.transport.http_listen; },
     .help = "where to serve POST /v1/histogram and Connect's unary calls over HTTP, without "
             "TLS, for curl and browsers"},
    {.name = "http-host", .listed = kHelpAll, .placeholder = "NAME,NAME",
     .member = [](Config& c) -> Member { return &c.transport.http_hosts; },
     .help = "names in the Host header, beside localhost, by which --http-listen answers; set it "
             "behind a proxy, to the name that callers use"},
    {.name = "http-allow-origin", .listed = kHelpAll, .placeholder = "ORIGIN,ORIGIN",
     .member = [](Config& c) -> Member { return &c.transport.http_allow_origins; },
     .help = "sites, such as https://example.org, whose pages may call --http-listen; none if "
             "only this site's pages and programs do"},
    {.name = "tls-cert", .placeholder = "FILE",
     .member = [](Config& c) -> Member { return &c.transport.tls_cert; },
     .help = "PEM certificate chain: TCP listeners speak TLS; read again when the file changes; "
             "set it where callers come over a network that others share"},
    {.name = "tls-key", .placeholder = "FILE",
     .member = [](Config& c) -> Member { return &c.transport.tls_key; },
     .help = "PEM private key of --tls-cert; needed with it"},
    {.name = "tls-client-ca", .placeholder = "FILE",
     .member = [](Config& c) -> Member { return &c.transport.tls_client_ca; },
     .help = "PEM certificates of the CAs that verify clients (mutual TLS); set it to admit only "
             "callers with a certificate"},
    {.name = "allow-plaintext",
     .member = [](Config& c) -> Member { return &c.transport.allow_plaintext; },
     .help = "serve without TLS on addresses that other machines can reach, and HTTP there beside "
             "gRPC with TLS; for a network or a proxy that encrypts"},
    {.name = "token-file", .placeholder = "FILE",
     .member = [](Config& c) -> Member { return &c.transport.token_file; },
     .help = "bearer tokens, a line each: NAME TOKEN [BYTES_PER_SECOND]; a call without one of "
             "them is refused; set it to tell tenants apart and to limit each"},
    {.name = "drain-delay", .as = kDuration, .limits = {0, kHour},
     .member = [](Config& c) -> Member { return &c.transport.drain_delay_us; },
     .help = "after SIGTERM, how long to go on accepting calls while health says NOT_SERVING; "
             "longer than balancers take to notice"},
    {.name = "drain-max", .as = kDuration, .limits = {0, kDay},
     .member = [](Config& c) -> Member { return &c.transport.drain_us_max; },
     .help = "after SIGTERM, how long until calls that are still open are cancelled; longer than "
             "the longest call, and 5s less than what stops the process waits"},
    {.name = "port-file", .listed = kHelpAll, .placeholder = "FILE",
     .member = [](Config& c) -> Member { return &c.port_file; },
     .help = "once all ports are open, write their addresses here, one a line: address=..., "
             "metrics=..., http=...; for scripts that ask for port 0"},
    {.name = "streams-max", .listed = kHelpAll, .limits = {1, 1000000},
     .member = [](Config& c) -> Member { return &c.transport.streams_max; },
     .help = "concurrent calls of one connection; fewer where memory for messages runs out, more "
             "for clients that keep more calls open"},
    {.name = "receive-threads", .listed = kHelpAll, .limits = {0, 1024},
     .member = [](Config& c) -> Member { return &c.transport.receive_threads; },
     .help = "threads that receive and answer, each for connections of its own; 0 for one a "
             "core; fewer to leave cores to the lanes"},
    {.name = "connection-age-max", .listed = kHelpAll,
     .as = kDuration, .limits = {0, 30 * kDay},
     .member = [](Config& c) -> Member { return &c.transport.connection_age_us_max; },
     .help = "a connection older than this is asked to reconnect; 0 for never; set it where "
             "servers are added behind clients that stay connected"},
    {.name = "core-dumps", .listed = kHelpAll,
     .member = [](Config& c) -> Member { return &c.core_dumps; },
     .help = "let a crash leave a core dump, which may hold payload bytes; to find the cause of "
             "a crash"},
    {.group = "Limits", .name = "payload-bytes-max", .as = kBytes, .limits = {1, kPayloadBytesMax},
     .member = [](Config& c) -> Member { return &c.transport.payload_bytes_max; },
     .help = "payload of one Compute, one item of a ComputeMany or one chunk of an Accumulate; "
             "more, with the two limits below, for clients that cannot send chunks"},
    {.name = "queue-bytes-max", .as = kBytes, .limits = {1, 8 * kTiB},
     .member = [](Config& c) -> Member { return &c.batching.queue_bytes_max; },
     .help = "payloads and their replies that are queued or executing; beyond, calls are refused "
             "and streams pause; more where bursts are refused with QUEUE_FULL"},
    {.name = "receive-bytes-max", .as = kBytes, .limits = {kMiB, 16 * kTiB},
     .member = [](Config& c) -> Member { return &c.transport.receive_bytes_max; },
     .help = "memory for received messages over all connections; at least twice "
             "--queue-bytes-max; at least 0.5 GiB less than the process may take"},
    {.name = "bin-count-max", .listed = kHelpAll, .limits = {1, kBinCountMax},
     .member = [](Config& c) -> Member { return &c.transport.bin_count_max; },
     .help = "bins of one histogram; each takes up to 24 bytes of --queue-bytes-max, 16 more "
             "with edges, 20 more with sparse and 40 more with statistics; fewer where callers "
             "ask for too much"},
    {.name = "batch-bytes-max", .listed = kUnlisted, .as = kBytes, .limits = {1, 4095 * kMiB},
     .member = [](Config& c) -> Member { return &c.batching.batch_bytes_max; },
     .help = "payload bytes of one batch"},
    {.name = "batch-delay-max", .listed = kUnlisted,
     .as = kDuration, .limits = {0, 10 * kSecond},
     .member = [](Config& c) -> Member { return &c.batching.batch_delay_us_max; },
     .help = "how long a batch may wait to fill while a lane is free"},
    {.name = "batch-max", .listed = kUnlisted, .as = kDuration,
     .limits = {kMillisecond, kHour},
     .member = [](Config& c) -> Member { return &c.batching.batch_us_max; },
     .help = "a batch that executes longer than this marks its backend as lost; more where other "
             "processes share the GPU"},
    // Listed nowhere, for tests: with these, payloads queue, stay whole and go to a GPU at will.
    {.name = "inline-bytes-max", .listed = kUnlisted, .as = kBytes, .limits = {0, kGiB},
     .member = [](Config& c) -> Member { return &c.batching.inline_bytes_max; },
     .help = "payloads up to this size are counted on the thread that received them"},
    {.name = "split-bytes-min", .listed = kUnlisted, .as = kBytes, .limits = {1, kTiB},
     .member = [](Config& c) -> Member { return &c.batching.split_bytes_min; },
     .help = "payloads from this size on are cut over the lanes that are free"},
    {.group = "Backends and kernels", .name = "backend", .choices = "auto, cpu, cuda",
     .member = [](Config& c) -> Member { return Choice(c.backend.choice); },
     .help = "what counts: auto takes every usable GPU and the CPU; cpu to leave GPUs to others, "
             "cuda to count on GPUs alone"},
    {.name = "require-backend", .choices = "none, cuda",
     .member = [](Config& c) -> Member { return Choice(c.require_cuda); },
     .help = "the server is not ready, and gets no traffic, while it lacks this backend; cuda "
             "where a server without a GPU would be too slow"},
    {.name = "cpu-lanes", .limits = {0, 1024},
     .member = [](Config& c) -> Member { return &c.backend.cpu_lanes; },
     .help = "batches that the CPU executes at a time; 0 for one a core that this process may "
             "use; fewer to leave cores to the receiving threads"},
    {.name = "lanes", .limits = {0, 256},
     .member = [](Config& c) -> Member { return &c.backend.cuda_lanes; },
     .help = "batches that each GPU executes at a time, each with a stream and buffers; 0 for 2 "
             "where connections are read into pinned memory (1 with more than two GPUs), else 4; "
             "fewer to save pinned and device memory"},
    {.name = "on-device-loss", .listed = kHelpAll, .choices = "degrade, exit",
     .placeholder = "WHAT",
     .member = [](Config& c) -> Member { return Choice(c.on_device_loss); },
     .help = "when a GPU is lost: degrade goes on with what is left, exit ends the process after "
             "a drain; exit where a supervisor starts it anew"},
    {.name = "verify-fraction", .listed = kHelpAll,
     .member = [](Config& c) -> Member { return &c.transport.verify_fraction; },
     .help = "share of the requests that are recounted by plain loops before they are "
             "answered; 1 while you doubt a machine or a build"},
    {.name = "force-kernel", .listed = kUnlisted,
     .member = [](Config& c) -> Member { return &c.backend.force_kernel; },
     .help = "count with this kernel only, whatever is fastest"},
    {.name = "tune", .listed = kUnlisted,
     .member = [](Config& c) -> Member { return &c.backend.tune; },
     .help = "measure the kernels at start, before the ports open"},
    {.name = "fault-injection", .listed = kUnlisted, .placeholder = "SPEC",
     .member = [](Config& c) -> Member { return &c.backend.fault_injection; },
     .help = "make the device fail in a given way"},
    {.group = "Log", .name = "log-level", .choices = "debug, info, warn, error, off",
     .placeholder = "LEVEL",
     .member = [](Config& c) -> Member { return Choice(c.log.level); },
     .help = "what is written to standard error; debug for a line on each request and batch"},
    {.name = "log-format", .choices = "text, json", .placeholder = "FORMAT",
     .member = [](Config& c) -> Member { return Choice(c.log.format); },
     .help = "one line an event, as text or as a JSON object; json for programs that read the "
             "log"},
    {.name = "slow-request", .as = kDuration, .limits = {0, kHour},
     .member = [](Config& c) -> Member { return &c.transport.slow_request_us; },
     .help = "log the requests that take longer; 0 for none; longer if large payloads fill the "
             "log"},
};
// clang-format on

}  // namespace

absl::Span<const Setting> Settings() { return kSettings; }

}  // namespace histogram::server
