#include "client/cli/connection.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/certificate.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kTokenBytesMax = 4096;  // gRPC limits all of a call's metadata to 8 KiB

// The cause, which gRPC's messages name last.
std::string Cause(absl::string_view message) {
  const size_t colon = message.rfind(": ");
  return SafeText(colon == absl::string_view::npos ? message : message.substr(colon + 2));
}

// Why a secure connection failed, by gRPC's message. Empty where the message does not say.
std::string ExplainTls(absl::string_view lower, const ServerOptions& options) {
  const std::string server = absl::StrCat("the server at ", SafeText(options.server));
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
    return absl::StrCat("no CA in ", SafeText(options.tls_ca), " vouches for the certificate of ",
                        server);
  }
  if (absl::StrContains(lower, "peer name")) {
    return absl::StrCat("the certificate of ", server,
                        " is for another name; give that name with --tls-server-name");
  }
  if (absl::StrContains(lower, "socket closed") || absl::StrContains(lower, "reset by peer")) {
    if (const std::string fault = FilesDateFault(options.tls_cert); !fault.empty()) {
      return absl::StrCat(server, " ended the TLS handshake: the certificate in ",
                          SafeText(options.tls_cert), " ", fault);
    }
    return absl::StrCat(server, " ended the TLS handshake; ",
                        options.tls_cert.empty()
                            ? "it may require a client certificate: --tls-cert and --tls-key"
                            : "it may not trust the certificate in " + SafeText(options.tls_cert));
  }
  return "";
}

std::string ExplainUnavailable(const absl::Status& status, const ServerOptions& options) {
  const std::string message = SafeText(status.message());
  const std::string server = SafeText(options.server);
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
  absl::StatusOr<std::string> bytes = ReadFile(path, deadline, bytes_max + 1);
  // The file is late, and not the server.
  if (!bytes.ok()) return absl::FailedPreconditionError(bytes.status().message());
  if (absl::StripAsciiWhitespace(*bytes).empty()) {
    return absl::FailedPreconditionError(SafeText(path) + " is empty");
  }
  if (bytes->size() > bytes_max) {
    return absl::FailedPreconditionError(
        absl::StrCat(SafeText(path), " is longer than ", FormatBytes(bytes_max)));
  }
  into = *std::move(bytes);
  return absl::OkStatus();
}

absl::Status ReadTls(const ServerOptions& options, absl::Time deadline, client::TlsOptions& tls) {
  absl::Status status = ReadInto(options.tls_ca, deadline, tls.root_certificates);
  status.Update(ReadInto(options.tls_cert, deadline, tls.certificate_chain));
  status.Update(ReadInto(options.tls_key, deadline, tls.private_key));
  tls.server_name = options.tls_server_name;
  return status;
}

// What the library finds wrong, by the names of the options and files.
absl::Status NamingFiles(const absl::Status& status, const ServerOptions& options) {
  const auto named = [](const char* option, const std::string& path) {
    return absl::StrCat(option, ": ", SafeText(path));
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

client::CallOptions Connection::Call() const {
  client::CallOptions call;
  if (deadline != absl::InfiniteFuture()) {
    call.timeout = std::max(deadline - absl::Now(), absl::ZeroDuration());
  }
  return call;
}

absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options) {
  const absl::Time deadline = DeadlineOf(options);
  client::ConnectOptions connect;
  connect.user_agent = "histogram-client";
  if (options.tls) {
    absl::Status status = ReadTls(options, deadline, connect.tls.emplace());
    if (!status.ok()) return status;
  }
  absl::Status status =
      ReadInto(options.token_file, deadline, connect.bearer_token, kTokenBytesMax);
  if (!status.ok()) return status;
  absl::StripAsciiWhitespace(&connect.bearer_token);
  return connect;
}

absl::StatusOr<Connection> Connect(const ServerOptions& options) {
  Connection connection;
  connection.deadline = DeadlineOf(options);
  const absl::StatusOr<client::ConnectOptions> connect = ReadConnectOptions(options);
  if (!connect.ok()) return connect.status();
  auto client = client::Client::Connect(options.server, *connect);
  if (!client.ok()) return NamingFiles(client.status(), options);
  connection.client = *std::move(client);
  return connection;
}

std::string Explain(const absl::Status& status, const ServerOptions& options) {
  const std::string message = SafeText(status.message());
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return ExplainUnavailable(status, options);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::StrCat("no answer from ", SafeText(options.server), " within ",
                          FormatNumber(options.timeout_s.value_or(0)),
                          " s; allow more with --timeout");
    case absl::StatusCode::kUnauthenticated:
      if (options.token_file.empty()) {
        return absl::StrCat("the server at ", SafeText(options.server),
                            " requires a token; give it with --token-file");
      }
      return absl::StrCat("the server at ", SafeText(options.server),
                          " does not accept the token in ", SafeText(options.token_file), ": ",
                          message);
    case absl::StatusCode::kUnimplemented:
      return absl::StrCat("the server at ", SafeText(options.server), " cannot do this: ", message);
    default:
      return message.empty() ? absl::StatusCodeToString(status.code()) : message;
  }
}

}  // namespace histogram::cli
