// The settings themselves. See config_settings.h for what the columns mean.
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/workload.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

constexpr double kKiB = 1024.0, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;
constexpr double kMillisecond = 1000, kSecond = 1e6, kHour = 3600e6, kDay = 24 * kHour;
// gRPC counts message sizes in a signed 32-bit integer, and a message is a little more than its
// payload.
constexpr double kPayloadBytesMax = 2 * kGiB - 4 * kMiB;

using K = SettingKind;
using R = SettingRef;

std::vector<Setting> NetworkSettings() {
  constexpr absl::string_view kGroup = "Network";
  return {
      {"listen", kGroup, K::kAddresses, "ADDRESS",
       "where to serve: HOST:PORT, [V6]:PORT or unix:PATH, port 0 for any free one; repeat the "
       "flag to "
       "serve at several places",
       [](Config& c) -> R { return &c.transport.listen; }},
      {"metrics-listen", kGroup, K::kAddress, "ADDRESS",
       "where to serve /metrics, /healthz and /readyz over HTTP: HOST:PORT or off",
       [](Config& c) -> R { return &c.metrics_listen; }},
      {"port-file", kGroup, K::kText, "FILE",
       "once ready, write the open addresses here, one a line: address=..., metrics=...",
       [](Config& c) -> R { return &c.port_file; }},
      {"core-dumps", kGroup, K::kSwitch, "",
       "let a crash leave a core dump, which may hold payload bytes",
       [](Config& c) -> R { return &c.core_dumps; }},
      {"reuse-port", kGroup, K::kSwitch, "",
       "let several servers share one port (SO_REUSEPORT); otherwise a port in use is an error",
       [](Config& c) -> R { return &c.transport.reuse_port; }},
      {"tls-cert", kGroup, K::kText, "FILE",
       "PEM certificate chain: TCP listeners speak TLS; read again when the file changes",
       [](Config& c) -> R { return &c.transport.tls_cert; }},
      {"tls-key", kGroup, K::kText, "FILE", "PEM private key of --tls-cert",
       [](Config& c) -> R { return &c.transport.tls_key; }},
      {"tls-client-ca", kGroup, K::kText, "FILE",
       "PEM certificates: clients must show one that leads to these (mutual TLS)",
       [](Config& c) -> R { return &c.transport.tls_client_ca; }},
      {"allow-plaintext", kGroup, K::kSwitch, "",
       "serve without TLS on addresses that other machines can reach",
       [](Config& c) -> R { return &c.transport.allow_plaintext; }},
      {"token-file", kGroup, K::kText, "FILE",
       "bearer tokens, a line each: NAME TOKEN [BYTES_PER_SECOND]; without one no call is answered",
       [](Config& c) -> R { return &c.transport.token_file; }},
      {"slow-request-us", kGroup, K::kTime, "TIME",
       "requests that take longer are logged, with their trace; 0 for none",
       [](Config& c) -> R { return &c.transport.slow_request_us; }, 0, kHour},
      {"reflection", kGroup, K::kSwitch, "", "offer gRPC server reflection",
       [](Config& c) -> R { return &c.transport.reflection; }},
      {"streams-max", kGroup, K::kCount, "N", "concurrent calls of one connection",
       [](Config& c) -> R { return &c.transport.streams_max; }, 1, 1e6},
      {"receive-threads", kGroup, K::kCount, "N",
       "threads that receive and answer, each for connections of its own; 0 for one a core",
       [](Config& c) -> R { return &c.transport.receive_threads; }, 0, 1024},
      {"header-bytes-max", kGroup, K::kBytes, "BYTES", "size of a call's request headers",
       [](Config& c) -> R { return &c.transport.header_bytes_max; }, kKiB, kMiB},
      {"connection-age-us-max",
       kGroup,
       K::kTime,
       "TIME",
       "a connection older than this is asked to reconnect, so that load spreads anew; 0 for never",
       [](Config& c) -> R { return &c.transport.connection_age_us_max; },
       kSecond,
       30 * kDay,
       {},
       false,
       true},
      {"keepalive-min-interval-us", kGroup, K::kTime, "TIME",
       "a client that pings more often than this is disconnected",
       [](Config& c) -> R { return &c.transport.keepalive_min_interval_us; }, kMillisecond, kHour},
      {"drain-delay-us", kGroup, K::kTime, "TIME",
       "after SIGTERM, how long to go on accepting calls while health already says NOT_SERVING",
       [](Config& c) -> R { return &c.transport.drain_delay_us; }, 0, kHour},
      {"drain-us-max", kGroup, K::kTime, "TIME",
       "after SIGTERM, how long until calls that are still open are cancelled",
       [](Config& c) -> R { return &c.transport.drain_us_max; }, 0, kDay},
  };
}

std::vector<Setting> LimitSettings() {
  constexpr absl::string_view kGroup = "Limits of a request";
  return {
      {"payload-bytes-max", kGroup, K::kBytes, "BYTES",
       "payload of one Compute, one item of a ComputeMany or one chunk of an Accumulate",
       [](Config& c) -> R { return &c.transport.payload_bytes_max; }, 1, kPayloadBytesMax},
      {"bin-count-max", kGroup, K::kCount, "N", "bins of one histogram",
       [](Config& c) -> R { return &c.transport.bin_count_max; }, 1, kBinCountMax},
      {"quantiles-max", kGroup, K::kCount, "N", "quantiles of one request",
       [](Config& c) -> R { return &c.transport.quantiles_max; }, 0, 65536},
      {"stream-payloads-max", kGroup, K::kCount, "N",
       "payloads of one ComputeMany that wait for their answer; then its stream is not read",
       [](Config& c) -> R { return &c.transport.stream_payloads_max; }, 1, 65536},
      {"verify-fraction", kGroup, K::kFraction, "FRACTION",
       "share of the requests that are recounted with another kernel before they are answered",
       [](Config& c) -> R { return &c.transport.verify_fraction; }, 0, 1},
  };
}

std::vector<Setting> QueueSettings() {
  constexpr absl::string_view kGroup = "Memory, queue and batches";
  return {
      {"receive-bytes-max", kGroup, K::kBytes, "BYTES",
       "memory for received messages over all connections; at least twice --queue-bytes-max",
       [](Config& c) -> R { return &c.transport.receive_bytes_max; }, kMiB, 16 * kTiB},
      {"queue-bytes-max", kGroup, K::kBytes, "BYTES",
       "payloads and their replies that are queued or executing; beyond it calls are refused and "
       "streams "
       "pause",
       [](Config& c) -> R { return &c.batching.queue_bytes_max; }, 1, 8 * kTiB},
      {"batch-payloads-max", kGroup, K::kCount, "N", "payloads of one batch",
       [](Config& c) -> R { return &c.batching.batch_payloads_max; }, 1, 1 << 20},
      {"batch-bytes-max", kGroup, K::kBytes, "BYTES", "payload bytes of one batch",
       [](Config& c) -> R { return &c.batching.batch_bytes_max; }, 1, 4095 * kMiB},
      {"batch-delay-us-max", kGroup, K::kTime, "TIME",
       "how long a batch may wait to fill while a lane is free",
       [](Config& c) -> R { return &c.batching.batch_delay_us_max; }, 0, 10 * kSecond},
      {"batch-us-max", kGroup, K::kTime, "TIME",
       "a batch that executes longer than this marks its backend as lost",
       [](Config& c) -> R { return &c.batching.batch_us_max; }, kMillisecond, kHour},
      {"deadline-margin-us", kGroup, K::kTime, "TIME",
       "a batch is closed this long before the tightest deadline in it",
       [](Config& c) -> R { return &c.batching.deadline_margin_us; }, 0, kSecond},
      {"inline-bytes-max", kGroup, K::kBytes, "BYTES",
       "payloads up to this size are counted on the thread that received them (CPU only; those of "
       "streams from 64KiB on only where most of these threads are busy)",
       [](Config& c) -> R { return &c.batching.inline_bytes_max; }, 0, kGiB},
      {"split-bytes-min", kGroup, K::kBytes, "BYTES",
       "payloads from this size on are cut over the lanes that are free",
       [](Config& c) -> R { return &c.batching.split_bytes_min; }, 1, kTiB},
      {"small-bytes-max", kGroup, K::kBytes, "BYTES",
       "payloads up to this size queue apart from larger ones, which cannot hold them up",
       [](Config& c) -> R { return &c.batching.small_bytes_max; }, 0, kGiB},
  };
}

std::vector<Setting> BackendSettings() {
  constexpr absl::string_view kGroup = "Backends and kernels";
  return {
      {"backend",
       kGroup,
       K::kChoice,
       "NAME",
       "what counts: auto takes every usable GPU and the CPU",
       [](Config& c) -> R { return &c.backend.choice; },
       0,
       0,
       {"auto", "cpu", "cuda"}},
      {"require-backend",
       kGroup,
       K::kChoice,
       "NAME",
       "not ready, and so without traffic, lacking it",
       [](Config& c) -> R { return RequireCuda{&c.require_cuda}; },
       0,
       0,
       {"none", "cuda"}},
      {"on-device-loss",
       kGroup,
       K::kChoice,
       "WHAT",
       "when a GPU is lost: degrade goes on with what is left, exit ends the process after a drain",
       [](Config& c) -> R { return &c.on_device_loss; },
       0,
       0,
       {"degrade", "exit"}},
      {"cpu-lanes", kGroup, K::kCount, "N",
       "batches that the CPU executes at a time; 0 for one per core of the cgroup's quota, two at "
       "least",
       [](Config& c) -> R { return &c.backend.cpu_lanes; }, 0, 1024},
      {"lanes", kGroup, K::kCount, "N", "streams with their buffers per GPU",
       [](Config& c) -> R { return &c.backend.cuda_lanes; }, 1, 256},
      {"lane-bytes", kGroup, K::kBytes, "BYTES",
       "pinned and device memory for the payloads of one GPU lane",
       [](Config& c) -> R { return &c.backend.cuda_lane_bytes; }, 64 * kKiB, 4095 * kMiB},
      {"lane-payloads", kGroup, K::kCount, "N", "payloads that one GPU lane holds",
       [](Config& c) -> R { return &c.backend.lane_payloads; }, 1, 1 << 20},
      {"spin-us-max", kGroup, K::kTime, "TIME",
       "how long a GPU lane polls for the device before it sleeps",
       [](Config& c) -> R { return &c.backend.spin_us_max; }, 0, kSecond},
      {"force-kernel", kGroup, K::kText, "NAME", "count with this kernel only, whatever is fastest",
       [](Config& c) -> R { return &c.backend.force_kernel; }},
      {"tune", kGroup, K::kSwitch, "", "measure the kernels at start, before the ports open",
       [](Config& c) -> R { return &c.backend.tune; }},
      {"tuning-cache", kGroup, K::kText, "DIRECTORY",
       "keep what was measured here, and take it from here at the next start",
       [](Config& c) -> R { return &c.backend.tuning_cache; }},
      {"tuning-table", kGroup, K::kText, "FILE", "take the choice of kernels from this file",
       [](Config& c) -> R { return &c.backend.tuning_table; }},
      {"tune-only", kGroup, K::kSwitch, "", "measure the kernels, print the table and exit",
       [](Config& c) -> R { return &c.tune_only; }},
      {"fault-injection",
       kGroup,
       K::kText,
       "SPEC",
       "make the device fail in a given way (tests)",
       [](Config& c) -> R { return &c.backend.fault_injection; },
       0,
       0,
       {},
       true},
  };
}

std::vector<Setting> LogSettings() {
  constexpr absl::string_view kGroup = "Log";
  return {
      {"log-level",
       kGroup,
       K::kChoice,
       "LEVEL",
       "what is written to standard error",
       [](Config& c) -> R { return &c.log.level; },
       0,
       0,
       {"trace", "debug", "info", "warn", "error", "off"}},
      {"log-format",
       kGroup,
       K::kChoice,
       "FORMAT",
       "one line an event, as text or as a JSON object",
       [](Config& c) -> R { return &c.log.format; },
       0,
       0,
       {"text", "json"}},
  };
}

}  // namespace

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>* const settings = [] {
    auto* all = new std::vector<Setting>;
    for (const auto& group :
         {NetworkSettings(), LimitSettings(), QueueSettings(), BackendSettings(), LogSettings()}) {
      all->insert(all->end(), group.begin(), group.end());
    }
    return all;
  }();
  return *settings;
}

}  // namespace histogram::server
