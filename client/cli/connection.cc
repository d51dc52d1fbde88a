#include "client/cli/connection.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kTokenBytesMax = 4096;  // gRPC's default for all of a call's metadata is 8 KiB

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string DateText(const ASN1_TIME* time) {
  const Owned<BIO> text(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(text.get(), time);
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(text.get(), &data));
  return {data, size};
}

std::string DateFault(const X509* certificate) {
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(end) < 0) return "has expired, on " + DateText(end);
  if (X509_cmp_current_time(begin) > 0) return "is not valid before " + DateText(begin);
  return "";
}

// What is wrong with the dates of the certificate that the TLS server at HOST:PORT shows now, or of
// the CA above it that `ca` (a PEM file; empty: the system's) has: "has expired, on DATE" and the
// like. gRPC says only that it is not trusted. Empty if they are right, or the server does not
// answer within two seconds.
std::string ServersDateFault(const std::string& address, const std::string& server_name,
                             const std::string& ca) {
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return "";
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  if (ca.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else {
    SSL_CTX_load_verify_locations(context.get(), ca.c_str(), nullptr);
  }
  const Owned<BIO> connection(BIO_new_ssl_connect(context.get()));
  SSL* ssl = nullptr;  // a part of the connection
  if (BIO_get_ssl(connection.get(), &ssl) != 1) return "";
  std::string where = address;  // OpenSSL's macros cast constants away
  BIO_set_conn_hostname(connection.get(), where.data());
  std::string name = server_name.empty() ? address.substr(0, address.rfind(':')) : server_name;
  SSL_set_tlsext_host_name(ssl, name.data());
  constexpr int kSecondsMax = 2;
  // A server that wants a certificate fails this after showing its own.
  BIO_do_connect_retry(connection.get(), kSecondsMax, -1);
  ERR_clear_error();
  const Owned<X509> shown(SSL_get1_peer_certificate(ssl));
  if (shown == nullptr) return "";
  if (std::string fault = DateFault(shown.get()); !fault.empty()) return fault;
  const int64_t verdict = SSL_get_verify_result(ssl);
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED) return "is of a CA whose certificate has expired";
  if (verdict == X509_V_ERR_CERT_NOT_YET_VALID)
    return "is of a CA whose certificate is not valid yet";
  return "";
}

// Of the first certificate in a PEM file. Empty if its dates are right, or it cannot be read.
std::string FilesDateFault(const std::string& path) {
  const Owned<BIO> file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) return "";
  const Owned<X509> certificate(PEM_read_bio_X509_AUX(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate == nullptr ? "" : DateFault(certificate.get());
}

// The cause, which gRPC's messages name last.
std::string Cause(absl::string_view message) {
  const size_t colon = message.rfind(": ");
  return std::string(colon == absl::string_view::npos ? message : message.substr(colon + 2));
}

// Why a secure connection failed, by gRPC's message. Empty where the message does not say.
std::string ExplainTls(absl::string_view lower, const ServerOptions& options) {
  const std::string server = absl::StrCat("the server at ", options.server);
  if (absl::StrContains(lower, "wrong version number")) {
    return server + " does not speak TLS; leave out --tls";
  }
  if (absl::StrContains(lower, "certificate verify failed")) {
    if (const std::string fault =
            ServersDateFault(options.server, options.tls_server_name, options.tls_ca);
        !fault.empty()) {
      return absl::StrCat("the certificate of ", server, " ", fault);
    }
    if (options.tls_ca.empty()) {
      return absl::StrCat("no CA of this system vouches for the certificate of ", server,
                          "; name its CA with --tls-ca");
    }
    return absl::StrCat("no CA in ", options.tls_ca, " vouches for the certificate of ", server);
  }
  if (absl::StrContains(lower, "peer name")) {
    return absl::StrCat("the certificate of ", server,
                        " is for another name; give that name with --tls-server-name");
  }
  if (absl::StrContains(lower, "socket closed") || absl::StrContains(lower, "reset by peer")) {
    if (const std::string fault = FilesDateFault(options.tls_cert); !fault.empty()) {
      return absl::StrCat(server, " ended the TLS handshake: the certificate in ", options.tls_cert,
                          " ", fault);
    }
    return absl::StrCat(server, " ended the TLS handshake; ",
                        options.tls_cert.empty()
                            ? "it may require a client certificate: --tls-cert and --tls-key"
                            : "it may not trust the certificate in " + options.tls_cert);
  }
  return "";
}

std::string ExplainUnavailable(const absl::Status& status, const ServerOptions& options) {
  const std::string message(status.message());
  const std::string& server = options.server;
  if (client::ErrorDetail(status).has_value()) {
    return absl::StrCat("the server at ", server, " is not available: ", message);
  }
  const std::string lower = absl::AsciiStrToLower(message);
  if (absl::StrContains(lower, "unhealthy")) {
    return absl::StrCat("the server at ", server,
                        " is not ready; see 'histogram-client health' and try again");
  }
  // Nothing of the kind is said of a server that was never reached.
  if (!absl::StrContains(lower, "failed to connect") && !absl::StrContains(lower, "last error") &&
      (absl::StrContains(lower, "broken pipe") || absl::StrContains(lower, "reset by peer") ||
       absl::StrContains(lower, "socket closed"))) {
    return absl::StrCat("the connection to the server at ", server, " was lost (", Cause(message),
                        "): it may have shut down; try again");
  }
  const bool connected =
      !absl::StrContains(lower, "refused") && !absl::StrContains(lower, "timed out");
  if (options.tls && connected) {
    std::string why = ExplainTls(lower, options);
    if (!why.empty()) return why;
    return absl::StrCat("no secure connection to ", server, ": ", Cause(message),
                        "; check the --tls options");
  }
  if (absl::StrContains(lower, "http1.x")) {
    return absl::StrCat("what answers at ", server,
                        " speaks HTTP/1 and not gRPC; is this the server's metrics port?");
  }
  // A server with TLS hangs up on who speaks none.
  if (absl::StrContains(lower, "last error") &&
      (absl::StrContains(lower, "socket closed") || absl::StrContains(lower, "reset by peer"))) {
    return absl::StrCat("the server at ", server,
                        " closed the connection at once; if it speaks TLS, add --tls");
  }
  return absl::StrCat("no server answers at ", server, " (", Cause(message),
                      "); start histogram-server, or name another address with --server");
}

absl::Status ReadInto(const std::string& path, absl::Time deadline, std::string& into,
                      uint64_t bytes_max = uint64_t{16} << 20) {
  if (path.empty()) return absl::OkStatus();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return FileError("open", path);
  const absl::Cleanup close_file = [file] { close(file); };
  absl::StatusOr<std::string> bytes = ReadAll(file, path, deadline, bytes_max + 1);
  // The file is late, and not the server.
  if (!bytes.ok()) return absl::FailedPreconditionError(bytes.status().message());
  if (absl::StripAsciiWhitespace(*bytes).empty()) {
    return absl::FailedPreconditionError(path + " is empty");
  }
  if (bytes->size() > bytes_max) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is longer than ", FormatBytes(bytes_max)));
  }
  into = *std::move(bytes);
  return absl::OkStatus();
}

// What the library finds wrong, by the names of the options and files.
absl::Status NamingFiles(const absl::Status& status, const ServerOptions& options) {
  const auto named = [](const char* option, const std::string& path) {
    return absl::StrCat(option, ": ", path);
  };
  return {status.code(),
          absl::StrReplaceAll(
              status.message(),
              {{"tls.root_certificates", named("--tls-ca", options.tls_ca)},
               {"tls.certificate_chain", named("--tls-cert", options.tls_cert)},
               {"tls.private_key", named("--tls-key", options.tls_key)},
               {"the bearer token holds", named("--token-file", options.token_file) + " holds"}})};
}

}  // namespace

absl::Time DeadlineOf(const ServerOptions& options) {
  return options.timeout_s.has_value() ? options.begin + absl::Seconds(*options.timeout_s)
                                       : absl::InfiniteFuture();
}

client::CallOptions CallOf(const ServerOptions& options) {
  return {.timeout = std::max(DeadlineOf(options) - absl::Now(), absl::ZeroDuration())};
}

absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options) {
  const absl::Time deadline = DeadlineOf(options);
  client::ConnectOptions connect;
  connect.user_agent = "histogram-client";
  absl::Status status;
  if (options.tls) {
    client::TlsOptions& tls = connect.tls.emplace();
    tls.server_name = options.tls_server_name;
    status.Update(ReadInto(options.tls_ca, deadline, tls.root_certificates));
    status.Update(ReadInto(options.tls_cert, deadline, tls.certificate_chain));
    status.Update(ReadInto(options.tls_key, deadline, tls.private_key));
  }
  status.Update(ReadInto(options.token_file, deadline, connect.bearer_token, kTokenBytesMax));
  if (!status.ok()) return status;
  absl::StripAsciiWhitespace(&connect.bearer_token);
  return connect;
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const ServerOptions& options) {
  const absl::StatusOr<client::ConnectOptions> connect = ReadConnectOptions(options);
  if (!connect.ok()) return connect.status();
  auto client = client::Client::Connect(options.server, *connect);
  if (!client.ok()) return NamingFiles(client.status(), options);
  return client;
}

std::string Explain(const absl::Status& status, const ServerOptions& options) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return ExplainUnavailable(status, options);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::StrCat("no answer from ", options.server, " within ",
                          FormatNumber(options.timeout_s.value_or(0)),
                          " s; allow more with --timeout");
    case absl::StatusCode::kUnauthenticated:
      if (options.token_file.empty()) {
        return absl::StrCat("the server at ", options.server,
                            " requires a token; give it with --token-file");
      }
      return absl::StrCat("the server at ", options.server, " does not accept the token in ",
                          options.token_file, ": ", message);
    case absl::StatusCode::kUnimplemented:
      return absl::StrCat("the server at ", options.server, " cannot do this: ", message);
    default:
      return message.empty() ? absl::StatusCodeToString(status.code()) : message;
  }
}

}  // namespace histogram::cli
