// The settings themselves. See settings.h for what the columns mean.
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/workload.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

using enum ReadAs;

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

std::vector<Setting> NetworkSettings() {
  return {
      {.name = "listen",
       .member = [](Config& c) -> Member { return &c.transport.listen; },
       .help = "where to serve: HOST:PORT, [V6]:PORT or unix:PATH, port 0 for any free one; repeat "
               "the flag to serve at several places"},
      {.name = "metrics-listen",
       .as = kAddress,
       .member = [](Config& c) -> Member { return &c.metrics_listen; },
       .help = "where to serve /metrics, /healthz and /readyz over HTTP: HOST:PORT or off"},
      {.name = "tls-cert",
       .member = [](Config& c) -> Member { return &c.transport.tls_cert; },
       .placeholder = "FILE",
       .help = "PEM certificate chain: TCP listeners speak TLS; read again when the file changes"},
      {.name = "tls-key",
       .member = [](Config& c) -> Member { return &c.transport.tls_key; },
       .placeholder = "FILE",
       .help = "PEM private key of --tls-cert"},
      {.name = "tls-client-ca",
       .member = [](Config& c) -> Member { return &c.transport.tls_client_ca; },
       .placeholder = "FILE",
       .help = "PEM certificates: clients must show one that leads to these (mutual TLS)"},
      {.name = "allow-plaintext",
       .member = [](Config& c) -> Member { return &c.transport.allow_plaintext; },
       .help = "serve without TLS on addresses that other machines can reach"},
      {.name = "token-file",
       .member = [](Config& c) -> Member { return &c.transport.token_file; },
       .placeholder = "FILE",
       .help = "bearer tokens, a line each: NAME TOKEN [BYTES_PER_SECOND]; a call without one of "
               "them is refused"},
      {.name = "drain-delay",
       .old_name = "drain-delay-us",
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.transport.drain_delay_us; },
       .limits = {0, kHour},
       .help = "after SIGTERM, how long to go on accepting calls while health says NOT_SERVING"},
      {.name = "drain-max",
       .old_name = "drain-us-max",
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.transport.drain_us_max; },
       .limits = {0, kDay},
       .help = "after SIGTERM, how long until calls that are still open are cancelled"},
      {.name = "port-file",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.port_file; },
       .placeholder = "FILE",
       .help = "once ready, write the open addresses here, one a line: address=..., metrics=..."},
      {.name = "reuse-port",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.reuse_port; },
       .help = "let several servers share one port (SO_REUSEPORT); without it a port in use is an "
               "error"},
      {.name = "reflection",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.reflection; },
       .help = "offer gRPC server reflection"},
      {.name = "streams-max",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.streams_max; },
       .limits = {1, 1000000},
       .help = "concurrent calls of one connection"},
      {.name = "receive-threads",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.receive_threads; },
       .limits = {0, 1024},
       .help =
           "threads that receive and answer, each for connections of its own; 0 for one a core"},
      {.name = "connection-age-max",
       .old_name = "connection-age-us-max",
       .listed = Listed::kHelpAll,
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.transport.connection_age_us_max; },
       .limits = {kSecond, 30 * kDay, /*or_zero=*/true},
       .help = "a connection older than this is asked to reconnect, so that load spreads anew; 0 "
               "for never"},
      {.name = "core-dumps",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.core_dumps; },
       .help = "let a crash leave a core dump, which may hold payload bytes"},
  };
}

std::vector<Setting> LimitSettings() {
  return {
      {.name = "payload-bytes-max",
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.transport.payload_bytes_max; },
       .limits = {1, kPayloadBytesMax},
       .help = "payload of one Compute, one item of a ComputeMany or one chunk of an Accumulate"},
      {.name = "queue-bytes-max",
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.batching.queue_bytes_max; },
       .limits = {1, 8 * kTiB},
       .help = "payloads and their replies that are queued or executing; beyond it calls are "
               "refused and streams pause"},
      {.name = "receive-bytes-max",
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.transport.receive_bytes_max; },
       .limits = {kMiB, 16 * kTiB},
       .help = "memory for received messages over all connections; at least twice "
               "--queue-bytes-max"},
      {.name = "bin-count-max",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.bin_count_max; },
       .limits = {1, kBinCountMax},
       .help = "bins of one histogram; each takes 24 bytes of --queue-bytes-max"},
      {.name = "stream-payloads-max",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.stream_payloads_max; },
       .limits = {1, 65536},
       .help = "payloads of one ComputeMany that wait for their answer; then its stream is not "
               "read"},
      {.name = "batch-bytes-max",
       .listed = Listed::kHelpAll,
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.batching.batch_bytes_max; },
       .limits = {1, 4095 * kMiB},
       .help = "payload bytes of one batch"},
      {.name = "batch-delay-max",
       .old_name = "batch-delay-us-max",
       .listed = Listed::kHelpAll,
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.batching.batch_delay_us_max; },
       .limits = {0, 10 * kSecond},
       .help = "how long a batch may wait to fill while a lane is free"},
      {.name = "batch-max",
       .old_name = "batch-us-max",
       .listed = Listed::kHelpAll,
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.batching.batch_us_max; },
       .limits = {kMillisecond, kHour},
       .help = "a batch that executes longer than this marks its backend as lost"},
      // Tests need these to have payloads queue, stay whole, and go to a GPU at will.
      {.name = "inline-bytes-max",
       .listed = Listed::kNowhere,
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.batching.inline_bytes_max; },
       .limits = {0, kGiB},
       .help = "payloads up to this size are counted on the thread that received them"},
      {.name = "split-bytes-min",
       .listed = Listed::kNowhere,
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.batching.split_bytes_min; },
       .limits = {1, kTiB},
       .help = "payloads from this size on are cut over the lanes that are free"},
  };
}

std::vector<Setting> BackendSettings() {
  return {
      {.name = "backend",
       .member = [](Config& c) -> Member { return Choice(c.backend.choice); },
       .choices = {"auto", "cpu", "cuda"},
       .help = "what counts: auto takes every usable GPU and the CPU"},
      {.name = "require-backend",
       .member = [](Config& c) -> Member { return Choice(c.require_cuda); },
       .choices = {"none", "cuda"},
       .help = "the server is not ready, and gets no traffic, while it lacks this backend"},
      {.name = "cpu-lanes",
       .member = [](Config& c) -> Member { return &c.backend.cpu_lanes; },
       .limits = {0, 1024},
       .help = "batches that the CPU executes at a time; 0 for one per core of the cgroup's quota, "
               "two at least"},
      {.name = "lanes",
       .member = [](Config& c) -> Member { return &c.backend.cuda_lanes; },
       .limits = {1, 256},
       .help = "batches that each GPU executes at a time, each with a stream and buffers"},
      {.name = "tuning-cache",
       .member = [](Config& c) -> Member { return &c.backend.tuning_cache; },
       .placeholder = "DIRECTORY",
       .help = "keep what was measured here, and take it from here at the next start"},
      {.name = "on-device-loss",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return Choice(c.on_device_loss); },
       .choices = {"degrade", "exit"},
       .placeholder = "WHAT",
       .help = "when a GPU is lost: degrade goes on with what is left, exit ends the process after "
               "a drain"},
      {.name = "lane-bytes",
       .listed = Listed::kHelpAll,
       .as = kBytes,
       .member = [](Config& c) -> Member { return &c.backend.cuda_lane_bytes; },
       .limits = {64 * kKiB, 4095 * kMiB},
       .help = "pinned and device memory for the payloads of one GPU lane"},
      {.name = "verify-fraction",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.transport.verify_fraction; },
       .help = "share of the requests that are recounted with another kernel before they are "
               "answered"},
      {.name = "force-kernel",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.backend.force_kernel; },
       .help = "count with this kernel only, whatever is fastest"},
      {.name = "tune",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.backend.tune; },
       .help = "measure the kernels at start, before the ports open"},
      {.name = "tune-only",
       .listed = Listed::kHelpAll,
       .member = [](Config& c) -> Member { return &c.tune_only; },
       .help = "measure the kernels, print the table and exit"},
      {.name = "fault-injection",
       .listed = Listed::kNowhere,
       .member = [](Config& c) -> Member { return &c.backend.fault_injection; },
       .placeholder = "SPEC",
       .help = "make the device fail in a given way"},
  };
}

std::vector<Setting> LogSettings() {
  return {
      {.name = "log-level",
       .member = [](Config& c) -> Member { return Choice(c.log.level); },
       .choices = {"trace", "debug", "info", "warn", "error", "off"},
       .placeholder = "LEVEL",
       .help = "what is written to standard error"},
      {.name = "log-format",
       .member = [](Config& c) -> Member { return Choice(c.log.format); },
       .choices = {"text", "json"},
       .placeholder = "FORMAT",
       .help = "one line an event, as text or as a JSON object"},
      {.name = "slow-request",
       .old_name = "slow-request-us",
       .as = kDuration,
       .member = [](Config& c) -> Member { return &c.transport.slow_request_us; },
       .limits = {0, kHour},
       .help = "log the requests that take longer; 0 for none"},
  };
}

void Add(absl::string_view group, std::vector<Setting> settings, std::vector<Setting>& all) {
  for (Setting& setting : settings) setting.group = group;
  all.insert(all.end(), std::make_move_iterator(settings.begin()),
             std::make_move_iterator(settings.end()));
}

}  // namespace

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>* const settings = [] {
    auto* all = new std::vector<Setting>;
    Add("Network", NetworkSettings(), *all);
    Add("Limits", LimitSettings(), *all);
    Add("Backends and kernels", BackendSettings(), *all);
    Add("Log", LogSettings(), *all);
    return all;
  }();
  return *settings;
}

}  // namespace histogram::server
