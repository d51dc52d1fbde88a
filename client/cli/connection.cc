#include "client/cli/connection.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/environment.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kTokenBytesMax = 4096;  // gRPC's default for all of a call's metadata is 8 KiB

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
    return absl::StrCat(
        options.tls_ca.empty() ? "no CA of this system" : "no CA in " + options.tls_ca,
        " vouches for the certificate of ", server, " today",
        options.tls_ca.empty() ? "; name its CA with --tls-ca" : ": it may be out of date");
  }
  if (absl::StrContains(lower, "peer name")) {
    return absl::StrCat("the certificate of ", server,
                        " is for another name; give that name with --tls-server-name");
  }
  if (absl::StrContains(lower, "socket closed") || absl::StrContains(lower, "reset by peer")) {
    return absl::StrCat(server, " ended the TLS handshake; ",
                        options.tls_cert.empty()
                            ? "it may require a client certificate: --tls-cert and --tls-key"
                            : "it may not trust the certificate in " + options.tls_cert +
                                  ", or this is out of date");
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
  // A server with TLS hangs up on a client that speaks none.
  if (absl::StrContains(lower, "last error") &&
      (absl::StrContains(lower, "socket closed") || absl::StrContains(lower, "reset by peer"))) {
    return absl::StrCat("the server at ", server,
                        " closed the connection at once; if it speaks TLS, add --tls");
  }
  return absl::StrCat("no server answers at ", server, " (", Cause(message),
                      "); start histogram-server, or name another address with --server");
}

absl::Status ReadInto(const std::string& path, std::string& into,
                      uint64_t bytes_max = uint64_t{16} << 20) {
  if (path.empty()) return absl::OkStatus();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError("open", path);
  const absl::Cleanup close_file = [file] { close(file); };
  absl::StatusOr<std::string> bytes = ReadAll(file, path, bytes_max + 1);
  if (!bytes.ok()) return bytes.status();
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

absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options) {
  client::ConnectOptions connect;
  connect.user_agent = "histogram-client";
  absl::Status status;
  if (options.tls) {
    client::TlsOptions& tls = connect.tls.emplace();
    tls.server_name = options.tls_server_name;
    status.Update(ReadInto(options.tls_ca, tls.root_certificates));
    status.Update(ReadInto(options.tls_cert, tls.certificate_chain));
    status.Update(ReadInto(options.tls_key, tls.private_key));
  }
  status.Update(ReadInto(options.token_file, connect.bearer_token, kTokenBytesMax));
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
