#include "client/cli/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr size_t kReadStep = size_t{1} << 20;

absl::Status FileError(const char* what, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", what, " ", SafeText(path), ": ", strerror(errno)));
}

// The cause, which gRPC's messages name last.
std::string Cause(absl::string_view message) {
  const size_t colon = message.rfind(": ");
  return SafeText(colon == absl::string_view::npos ? message : message.substr(colon + 2));
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
  // A server that does not like this client's certificate, or speaks no TLS, just hangs up.
  const bool connected =
      !absl::StrContains(lower, "refused") && !absl::StrContains(lower, "timed out");
  if (absl::StrContains(lower, "handshake") || (options.tls && connected)) {
    return absl::StrCat("no secure connection to ", server, ": ", Cause(message),
                        "; check the --tls options");
  }
  return absl::StrCat("no server answers at ", server, " (", Cause(message),
                      "); start histogram-server, or name another address with --server");
}

}  // namespace

client::CallOptions Connection::Call() const {
  client::CallOptions call;
  if (deadline != absl::InfiniteFuture()) {
    call.timeout = std::max(deadline - absl::Now(), absl::ZeroDuration());
  }
  return call;
}

namespace {

// Waits until `file` can be read (data, or its end); OK at once without a deadline.
absl::Status WaitForInput(int file, const std::string& name, absl::Time deadline) {
  while (deadline != absl::InfiniteFuture()) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    pollfd waiting{file, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return FileError("wait for", name);
    if (ready == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(SafeText(name), " was still silent when the time was over"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name,
                                 absl::Time deadline) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    if (absl::Status status = WaitForInput(file, name, deadline); !status.ok()) return status;
    const ssize_t bytes = read(file, buffer.data() + filled, buffer.size() - filled);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return FileError("read", name);
    if (bytes == 0) break;
    filled += static_cast<size_t>(bytes);
  }
  return filled;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError("open", path);
  const absl::Cleanup close_file = [file] { close(file); };
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    // Grows by half at least, so that big files are copied few times.
    const size_t step = std::max(kReadStep, before / 2);
    bytes.resize(before + step);
    const auto filled = ReadFully(file, absl::MakeSpan(&bytes[before], step), path);
    if (!filled.ok()) return filled.status();
    bytes.resize(before + *filled);
    if (*filled < step) return bytes;
  }
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return FileError("open", path);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t step = write(file, bytes.data() + written, bytes.size() - written);
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) {
      absl::Status status = FileError("write", path);
      close(file);
      return status;
    }
    written += static_cast<size_t>(step);
  }
  if (close(file) != 0) return FileError("write", path);
  return absl::OkStatus();
}

absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options) {
  client::ConnectOptions connect;
  connect.user_agent = "histogram-client";
  if (options.tls) connect.tls.emplace();
  const auto read = [](const std::string& path, std::string& into) -> absl::Status {
    if (path.empty()) return absl::OkStatus();
    absl::StatusOr<std::string> bytes = ReadFile(path);
    if (!bytes.ok()) return bytes.status();
    into = *std::move(bytes);
    return absl::OkStatus();
  };
  if (options.tls) {
    if (absl::Status status = read(options.tls_ca, connect.tls->root_certificates); !status.ok()) {
      return status;
    }
    if (absl::Status status = read(options.tls_cert, connect.tls->certificate_chain);
        !status.ok()) {
      return status;
    }
    if (absl::Status status = read(options.tls_key, connect.tls->private_key); !status.ok()) {
      return status;
    }
    connect.tls->server_name = options.tls_server_name;
  }
  if (absl::Status status = read(options.token_file, connect.bearer_token); !status.ok()) {
    return status;
  }
  absl::StripAsciiWhitespace(&connect.bearer_token);
  return connect;
}

absl::StatusOr<Connection> Connect(const ServerOptions& options) {
  const absl::StatusOr<client::ConnectOptions> connect = ReadConnectOptions(options);
  if (!connect.ok()) return connect.status();
  Connection connection;
  if (options.timeout_s.has_value()) {
    connection.deadline = absl::Now() + absl::Seconds(*options.timeout_s);
  }
  auto client = client::Client::Connect(options.server, *connect);
  if (!client.ok()) return client.status();
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
      return absl::StrCat("the server at ", SafeText(options.server), " asks who you are (",
                          message, "); give a token with --token-file");
    case absl::StatusCode::kUnimplemented:
      return absl::StrCat("what answers at ", SafeText(options.server),
                          " is no server that can do this: ", message);
    default:
      return message.empty() ? absl::StatusCodeToString(status.code()) : message;
  }
}

}  // namespace histogram::cli
