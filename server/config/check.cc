// Settings that are fine one by one and contradict each other.
#include <cstddef>
#include <string>
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

// "--queue-bytes-max (256 MiB)"
std::string Named(absl::string_view name, const Config& config) {
  const Setting* setting = FindSetting(name);
  if (setting == nullptr) return absl::StrCat("--", name);
  return absl::StrCat("--", name, " (", DisplayText(*setting, config), ")");
}

absl::Status CheckMemory(const Config& config) {
  const uint64_t payload = config.transport.payload_bytes_max;
  const uint64_t receive = config.transport.receive_bytes_max;
  const uint64_t queue = config.batching.queue_bytes_max;
  if (payload > queue) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named("payload-bytes-max", config), " is larger than ",
                     Named("queue-bytes-max", config), ", so that such a payload never had room"));
  }
  if (config.batching.batch_bytes_max > queue) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named("batch-bytes-max", config), " is larger than ",
                     Named("queue-bytes-max", config), ", so that no batch could ever fill"));
  }
  if (payload > receive / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named("payload-bytes-max", config), " is more than half of ",
                     Named("receive-bytes-max", config), "; one message would block all others"));
  }
  if (queue > receive / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named("receive-bytes-max", config), " must be at least twice ",
                     Named("queue-bytes-max", config),
                     ", because a message is in memory before the queue can refuse it"));
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(const Config& config) {
  std::vector<Address> listen;
  for (const std::string& text : config.transport.listen) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) return address.status();
    for (size_t i = 0; i < listen.size(); ++i) {
      if (address->Overlaps(listen[i])) {
        return absl::InvalidArgumentError(absl::StrCat("--listen ", text, " and --listen ",
                                                       config.transport.listen[i],
                                                       " are the same place; give it once"));
      }
    }
    listen.push_back(*address);
  }
  if (config.metrics_listen.empty()) return absl::OkStatus();
  const absl::StatusOr<Address> metrics = ParseAddress(config.metrics_listen);
  if (!metrics.ok()) return metrics.status();
  for (size_t i = 0; i < listen.size(); ++i) {
    if (metrics->Overlaps(listen[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--metrics-listen ", config.metrics_listen, " and --listen ", config.transport.listen[i],
          " are the same place; give them different ports"));
    }
  }
  return absl::OkStatus();
}

// Whether the address is reached from this machine only.
bool IsLocal(const Address& address) {
  return address.is_unix || address.host == "localhost" || address.host == "::1" ||
         absl::StartsWith(address.host, "127.");
}

absl::Status CheckSecurity(const Config& config) {
  const TransportConfig& t = config.transport;
  if (t.tls_cert.empty() != t.tls_key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key belong together: give both or neither");
  }
  if (!t.tls_client_ca.empty() && t.tls_cert.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (!t.tls_cert.empty() && t.allow_plaintext) {
    return absl::InvalidArgumentError(
        "--tls-cert and --allow-plaintext contradict each other: with a certificate every TCP "
        "listener speaks TLS");
  }
  if (!t.tls_cert.empty() || t.allow_plaintext) return absl::OkStatus();
  for (const std::string& text : t.listen) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) return address.status();
    if (!IsLocal(*address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listen ", text,
          " can be reached from other machines, and would be without TLS; give --tls-cert and "
          "--tls-key, or --allow-plaintext if something in front takes care of that"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const Config& config) {
  for (const Setting& setting : Settings()) {
    const absl::Status status = CheckLimits(setting, absl::StrCat("--", setting.name), config);
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckMemory(config); !status.ok()) return status;
  if (absl::Status status = CheckAddresses(config); !status.ok()) return status;
  if (absl::Status status = CheckSecurity(config); !status.ok()) return status;
  if (config.require_cuda && config.backend.choice == BackendOptions::Choice::kCpu) {
    return absl::InvalidArgumentError(
        "--require-backend cuda and --backend cpu contradict each other: the server could never be "
        "ready");
  }
  if (config.transport.drain_delay_us > config.transport.drain_us_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named("drain-delay-us", config), " is longer than ",
                     Named("drain-us-max", config), ", which bounds the whole drain"));
  }
  if (config.tune_only && !config.backend.tune) {
    return absl::InvalidArgumentError(
        "--tune-only and --no-tune contradict each other: there would be nothing to do");
  }
  return absl::OkStatus();
}

}  // namespace histogram::server
