// Connects by the options that all commands share, and explains a failed call in one line.
#ifndef HISTOGRAM_CLIENT_CLI_CONNECTION_H_
#define HISTOGRAM_CLIENT_CLI_CONNECTION_H_

#include <histogram/client.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::cli {

struct ServerOptions {
  bool in_process = false;  // count here, without a server
  std::string server = "127.0.0.1:50051";
  bool tls = false;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_server_name;
  std::string token_file;
};

// Reads the files that the options name.
absl::StatusOr<client::ConnectOptions> ReadConnectOptions(const ServerOptions& options);
absl::StatusOr<std::unique_ptr<client::Client>> Connect(const ServerOptions& options);

// One line: the error, and what to do about it if that is known.
std::string Explain(const absl::Status& status, const ServerOptions& options);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_CONNECTION_H_
