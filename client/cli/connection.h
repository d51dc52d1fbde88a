// From the options that every command has to a client, and from a failed call to one clear line.
#ifndef HISTOGRAM_CLIENT_CLI_CONNECTION_H_
#define HISTOGRAM_CLIENT_CLI_CONNECTION_H_

#include <histogram/client.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace histogram::cli {

struct ServerOptions {
  std::string server = "127.0.0.1:50051";
  std::optional<double> timeout_s = std::nullopt;
  bool tls = false;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_server_name;
  std::string token_file;
};

// A connection, and until when the whole command may take.
struct Connection {
  std::unique_ptr<client::Client> client;
  absl::Time deadline = absl::InfiniteFuture();

  client::CallOptions Call() const;  // what is left of the time
};

// Reads the files that the options name.
absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options);
absl::StatusOr<Connection> Connect(const ServerOptions& options);

// One line: what went wrong, and what to do about it where that is known.
std::string Explain(const absl::Status& status, const ServerOptions& options);

absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteFile(const std::string& path, const std::string& bytes);

// Fills the buffer from a file descriptor, short only at the end. `name` is for the error.
// DEADLINE_EXCEEDED where a pipe or terminal stays silent past the deadline.
absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name,
                                 absl::Time deadline = absl::InfiniteFuture());

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_CONNECTION_H_
