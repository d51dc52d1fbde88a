#include "client/channel.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace histogram::client {
namespace {

constexpr uint64_t kHeadBytesMax = uint64_t{2} << 20;  // spec and framing beside a payload
// The largest reply of any server: counts and edges of 2^24 bins.
constexpr uint64_t kReplyBytesMax = (uint64_t{256} << 20) + (uint64_t{64} << 10);
constexpr absl::Duration kKeepaliveMin = absl::Seconds(10);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);

int ClampToInt(uint64_t value) {
  return static_cast<int>(std::min(value, static_cast<uint64_t>(std::numeric_limits<int>::max())));
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, std::numeric_limits<int>::max()));
}

// A time between attempts. gRPC varies it by a fifth and cuts it to milliseconds. Releases
// after 1.71 may never end a call whose next attempt is due after 0 ms (grpc/grpc, issue 41036).
std::string JsonSeconds(absl::Duration duration) {
  constexpr double kMin = 0.002, kMax = 1e9;
  return absl::StrFormat("\"%.3fs\"", std::clamp(absl::ToDoubleSeconds(duration), kMin, kMax));
}

grpc::ChannelArguments MakeArguments(const std::string& address, const ConnectOptions& options) {
  grpc::ChannelArguments arguments;
  // The server's own limits answer with an error that says more than this one would.
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetMaxReceiveMessageSize(ClampToInt(kReplyBytesMax));
  // A retry resends what gRPC has kept, and it keeps 256 KiB of a call unless told otherwise.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE,
                   ClampToInt(options.payload_bytes_max + kHeadBytesMax));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(options.backoff_initial));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(absl::Seconds(10)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  // Each channel connects for itself. Shared, a connection that fails in one channel makes
  // gRPC 1.51 crash in the next one that checks health: it takes the failure's missing status for
  // success.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!MayUseProxy(address, options)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options.user_agent.empty()) arguments.SetUserAgentPrefix(options.user_agent);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return arguments;
}

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, Free> Open(const std::string& pem) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// The first certificate; null where there is none. Leaves no error behind for others.
std::unique_ptr<X509, Free> ReadCertificate(const std::string& pem) {
  std::unique_ptr<X509, Free> certificate(
      PEM_read_bio_X509_AUX(Open(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

// Null also where a passphrase is wanted: nobody is asked for one.
std::unique_ptr<EVP_PKEY, Free> ReadKey(const std::string& pem) {
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

// Checks the texts before gRPC gets them. For a bad one gRPC reports only that the connection
// fails.
absl::Status CheckTls(const TlsOptions& tls) {
  const auto bad = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  if (tls.certificate_chain.empty() != tls.private_key.empty()) {
    return bad("a client certificate and its private key must be given together");
  }
  if (!tls.root_certificates.empty() && ReadCertificate(tls.root_certificates) == nullptr) {
    return bad("tls.root_certificates holds no certificate in PEM");
  }
  if (tls.private_key.empty()) return absl::OkStatus();
  const auto certificate = ReadCertificate(tls.certificate_chain);
  if (certificate == nullptr) return bad("tls.certificate_chain holds no certificate in PEM");
  const auto key = ReadKey(tls.private_key);
  if (key == nullptr) {
    return bad("tls.private_key holds no private key in PEM, or an encrypted one");
  }
  const bool match = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return match ? absl::OkStatus() : bad("tls.private_key holds the key of another certificate");
}

absl::Status BadAddress(absl::string_view address, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the server's address \"", absl::CEscape(address), "\" ", what,
                   "; write HOST:PORT (for example 127.0.0.1:50051) or unix:PATH"));
}

absl::Status CheckUnix(const std::string& address, absl::string_view path) {
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty()) return BadAddress(address, "has no path");
  if (path.size() <= kPathMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the path of the server's address \"",
                                                 absl::CEscape(address), "\" has ", path.size(),
                                                 " bytes; the limit of a socket is ", kPathMax));
}

// TLS if the options have it, else insecure.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const ConnectOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = options.tls->root_certificates;
  ssl.pem_cert_chain = options.tls->certificate_chain;
  ssl.pem_private_key = options.tls->private_key;
  return grpc::SslCredentials(ssl);
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  if (address.empty()) {
    return absl::InvalidArgumentError(
        "the server's address is empty; write HOST:PORT or unix:PATH");
  }
  absl::string_view rest = address;
  if (absl::StartsWith(rest, "unix://") && !absl::StartsWith(rest, "unix:///")) {
    return BadAddress(address, "has a host; a path begins with a third slash");
  }
  for (const absl::string_view scheme : {"unix:///", "unix:", "unix-abstract:"}) {
    if (absl::ConsumePrefix(&rest, scheme)) return CheckUnix(address, rest);
  }
  // gRPC itself reads what precedes the port in a name of these.
  const bool named = absl::StartsWith(rest, "dns:") || absl::StartsWith(rest, "ipv4:") ||
                     absl::StartsWith(rest, "ipv6:");
  if (!named && absl::StrContains(rest, "://")) {
    return BadAddress(address, "is a URL; TLS is chosen by its own option");
  }
  const size_t colon = rest.rfind(':');
  // Without a port gRPC would quietly take 443.
  if (colon == absl::string_view::npos || colon + 1 == rest.size() || absl::EndsWith(rest, "]")) {
    return BadAddress(address, "has no port");
  }
  const absl::string_view host = rest.substr(0, colon), port = rest.substr(colon + 1);
  if (host.empty()) return BadAddress(address, "has no host");
  if (!absl::c_all_of(host, absl::ascii_isgraph)) {
    return BadAddress(address, "has a host with a space or a character that is not ASCII");
  }
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (!named && !bracketed && absl::StrContains(host, ":")) {
    return BadAddress(address, "is ambiguous; an IPv6 address is written as [V6]:PORT");
  }
  uint32_t number = 0;
  if (!absl::c_all_of(port, absl::ascii_isdigit) || !absl::SimpleAtoi(port, &number) ||
      number < 1 || number > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("the port of the server's address \"",
                                                   absl::CEscape(address),
                                                   "\" must be a whole number from 1 to 65535"));
  }
  return absl::OkStatus();
}

bool IsLocalAddress(const std::string& address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:"))
    return true;
  const std::string host = address.substr(0, address.rfind(':'));
  in_addr four{};  // a name may begin with 127, too
  return absl::EqualsIgnoreCase(host, "localhost") || host == "[::1]" || host == "0.0.0.0" ||
         host == "[::]" ||
         (absl::StartsWith(host, "127.") && inet_pton(AF_INET, host.c_str(), &four) == 1);
}

bool MayUseProxy(const std::string& address, const ConnectOptions& options) {
  const bool token_in_clear = !options.bearer_token.empty() && !options.tls.has_value();
  return !token_in_clear && !IsLocalAddress(address);
}

absl::Status CheckOptions(const std::string& address, const ConnectOptions& options) {
  if (absl::Status status = CheckAddress(address); !status.ok()) return status;
  if (options.attempts_max < 1 || options.attempts_max > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("attempts_max must be from 1 to 5, not ", options.attempts_max));
  }
  if (options.backoff_initial <= absl::ZeroDuration() ||
      options.backoff_max < options.backoff_initial) {
    return absl::InvalidArgumentError("backoff_initial must be > 0 and <= backoff_max");
  }
  if (options.keepalive < kKeepaliveMin) {
    return absl::InvalidArgumentError(absl::StrCat("keepalive is ",
                                                   absl::FormatDuration(options.keepalive),
                                                   ", less than the 10s that servers allow"));
  }
  if (options.tls.has_value()) {
    if (absl::Status status = CheckTls(*options.tls); !status.ok()) return status;
  }
  const std::string& token = options.bearer_token;
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        "the bearer token holds spaces or bytes that are not printable ASCII");
  }
  if (!token.empty() && !options.tls.has_value() && !options.bearer_token_without_tls &&
      !IsLocalAddress(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bearer token would travel unencrypted to ", address, "; use TLS"));
  }
  return absl::OkStatus();
}

std::string ServiceConfig(const ConnectOptions& options, bool admin) {
  const bool round_robin = options.round_robin && !admin;
  std::string json = absl::StrCat("{\"loadBalancingConfig\":[{\"",
                                  round_robin ? "round_robin" : "pick_first", "\":{}}]");
  if (round_robin && options.health_checking) {
    absl::StrAppend(&json,
                    ",\"healthCheckConfig\":{\"serviceName\":"
                    "\"histogram.v1.HistogramService\"}");
  }
  if (options.attempts_max > 1) {
    const std::string often =
        absl::StrCat("\"retryPolicy\":{\"maxAttempts\":", options.attempts_max,
                     ",\"initialBackoff\":", JsonSeconds(options.backoff_initial),
                     ",\"maxBackoff\":", JsonSeconds(options.backoff_max),
                     ",\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\"");
    constexpr char kName[] = "{\"service\":\"histogram.v1.HistogramService\",\"method\":";
    absl::StrAppend(&json, ",\"methodConfig\":[{\"name\":[", kName, "\"Compute\"},", kName,
                    "\"Describe\"}],", often, ",\"RESOURCE_EXHAUSTED\"]}},{\"name\":[", kName,
                    "\"ComputeMany\"}],", often,
                    "]}}],\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":0.1}");
  }
  absl::StrAppend(&json, "}");
  return json;
}

Channels MakeChannels(const std::string& address, const ConnectOptions& options) {
  const auto credentials = MakeCredentials(options);
  const auto make = [&](bool admin) {
    grpc::ChannelArguments arguments = MakeArguments(address, options);
    arguments.SetServiceConfigJSON(ServiceConfig(options, admin));
    return grpc::CreateCustomChannel(address, credentials, arguments);
  };
  return {make(false), make(true)};
}

std::shared_ptr<grpc::Channel> MakeBareChannel(const std::string& address,
                                               const ConnectOptions& options) {
  return grpc::CreateCustomChannel(address, MakeCredentials(options),
                                   MakeArguments(address, options));
}

void PrepareCall(const ConnectOptions& options, const CallOptions& call, absl::Time deadline,
                 grpc::ClientContext& context) {
  context.set_wait_for_ready(call.wait_for_ready);
  if (deadline != absl::InfiniteFuture()) {
    // gRPC rounds up: a call that is over now could be answered. It takes the least of all times
    // for none.
    const bool over = deadline <= absl::Now();
    context.set_deadline(absl::ToChronoTime(over ? absl::UnixEpoch() : deadline));
  }
  if (!options.bearer_token.empty()) {
    context.AddMetadata("authorization", "Bearer " + options.bearer_token);
  }
}

}  // namespace histogram::client
