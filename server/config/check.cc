// Settings that are fine one by one and contradict each other.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"
#include "server/config/settings.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

constexpr uint64_t kBytesOfABin = 3 * sizeof(uint64_t);  // without edges and statistics

// Whether two settings contradict each other, and the sentence that names both.
using Contradiction = std::pair<bool, std::string>;

std::vector<Contradiction> Contradictions(const Config& config) {
  const TransportConfig& t = config.transport;
  const uint64_t queue = config.batching.queue_bytes_max;
  // "--queue-bytes-max (256MiB)"
  const auto named = [&](absl::string_view name) {
    return absl::StrCat("--", name, " (", DisplayText(*FindSetting(name), config), ")");
  };
  return {
      {t.payload_bytes_max > queue,
       absl::StrCat(named("payload-bytes-max"), " is larger than ", named("queue-bytes-max"),
                    "; the queue has no room for such a payload")},
      {t.bin_count_max > TransportConfig().bin_count_max && kBytesOfABin * t.bin_count_max > queue,
       absl::StrCat(named("bin-count-max"), " takes ", FormatBytes(kBytesOfABin * t.bin_count_max),
                    " of counters, plan and reply, more than ", named("queue-bytes-max"),
                    "; the queue has no room for such a request")},
      {t.payload_bytes_max > t.receive_bytes_max / 2,
       absl::StrCat(named("payload-bytes-max"), " is more than half of ",
                    named("receive-bytes-max"), "; one message would block all others")},
      {queue > t.receive_bytes_max / 2,
       absl::StrCat(named("receive-bytes-max"), " must be at least twice ",
                    named("queue-bytes-max"),
                    ", because a message is in memory before the queue can refuse it")},
      {t.drain_delay_us > t.drain_us_max,
       absl::StrCat(named("drain-delay"), " is longer than ", named("drain-max"),
                    ", which bounds the whole drain")},
      {t.tls_cert.empty() != t.tls_key.empty(),
       "--tls-cert and --tls-key belong together: give both or neither"},
      {!t.tls_client_ca.empty() && t.tls_cert.empty(),
       "--tls-client-ca needs --tls-cert and --tls-key"},
      {!t.tls_cert.empty() && t.allow_plaintext,
       "--tls-cert and --allow-plaintext contradict each other: with a certificate every TCP "
       "listener speaks TLS"},
      {config.require_cuda && config.backend.choice == BackendOptions::Choice::kCpu,
       "--require-backend cuda and --backend cpu contradict each other: the server could never be "
       "ready"},
  };
}

// That no two listeners have the same place, and that none is open to other machines by oversight.
absl::Status CheckAddresses(const Config& config) {
  const TransportConfig& t = config.transport;
  std::vector<std::pair<std::string, Address>> places;
  const auto add = [&](absl::string_view flag, const std::string& text) -> absl::Status {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) return address.status();
    const std::string name = absl::StrCat(flag, " ", text);
    for (const auto& [other_name, other] : places) {
      if (!address->Overlaps(other)) continue;
      return Invalid(name, " and ", other_name, " are the same place; give each a port of its own");
    }
    places.emplace_back(name, *address);
    return absl::OkStatus();
  };
  for (const std::string& text : t.listen) {
    if (absl::Status status = add("--listen", text); !status.ok()) return status;
    if (!t.tls_cert.empty() || t.allow_plaintext || places.back().second.IsLocal()) continue;
    return Invalid(
        places.back().first,
        " can be reached from other machines, and would be without TLS; give --tls-cert and "
        "--tls-key, or --allow-plaintext if something in front takes care of that");
  }
  if (config.metrics_listen.empty()) return absl::OkStatus();
  return add("--metrics-listen", config.metrics_listen);
}

}  // namespace

absl::Status CheckConfig(const Config& config) {
  for (auto& [holds, message] : Contradictions(config)) {
    if (holds) return Invalid(message);
  }
  return CheckAddresses(config);
}

}  // namespace histogram::server
