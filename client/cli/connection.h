// Connects by the options that all commands share, and explains a failed call in one line.
#ifndef HISTOGRAM_CLIENT_CLI_CONNECTION_H_
#define HISTOGRAM_CLIENT_CLI_CONNECTION_H_

#include <histogram/client.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace histogram::cli {

struct ServerOptions {
  bool in_process = false;  // count here, without a server
  std::string server = "127.0.0.1:50051";
  std::optional<double> timeout_s = std::nullopt;  // of the command, with a server or without
  absl::Time begin = absl::Now();                  // of the command
  bool tls = false;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_server_name;
  std::string token_file;
};

// When the command gives up.
absl::Time DeadlineOf(const ServerOptions& options);

// A connection, and the deadline of the whole command.
struct Connection {
  std::unique_ptr<client::Client> client;
  absl::Time deadline = absl::InfiniteFuture();

  client::CallOptions Call() const;  // with the time left until the deadline
};

// Reads the files that the options name.
absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options);
absl::StatusOr<Connection> Connect(const ServerOptions& options);

// One line: the error, and what to do about it if that is known.
std::string Explain(const absl::Status& status, const ServerOptions& options);

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     absl::Time deadline = absl::InfiniteFuture());
// The rest of an open file, or its first `bytes_max` bytes. `name` and `deadline`: as for
// ReadFully.
absl::StatusOr<std::string> ReadAll(int file, const std::string& name, absl::Time deadline,
                                    uint64_t bytes_max = UINT64_MAX);
// Waits where the descriptor is in non-blocking mode and its reader is slow. False: errno says why,
// EAGAIN past the deadline.
bool WriteFully(int file, absl::string_view bytes, absl::Time deadline = absl::InfiniteFuture());
// Leaves no part of a regular file where it fails. Waits for a reader of a FIFO.
absl::Status WriteFile(const std::string& path, const std::string& bytes, absl::Time deadline);

// Fills the buffer from a file descriptor; returns fewer bytes only at the end of the file. `name`
// is for the error. Waits for data where the descriptor is in non-blocking mode, too.
// DEADLINE_EXCEEDED if a pipe or terminal has no data until the deadline. Reads at `offset` if it
// is given, else from where the file stands.
absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name,
                                 absl::Time deadline = absl::InfiniteFuture(),
                                 std::optional<uint64_t> offset = std::nullopt);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_CONNECTION_H_
