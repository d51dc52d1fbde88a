// TLS for the listeners: certificates from files, reloaded when the files change.
#ifndef HISTOGRAM_SERVER_RPC_CERTIFICATES_H_
#define HISTOGRAM_SERVER_RPC_CERTIFICATES_H_

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::server {

struct TlsFiles {
  std::string certificate;  // PEM chain of this server; empty: no TLS
  std::string key;          // PEM
  std::string client_ca;    // PEM; with it a client must show a certificate that leads to it (mTLS)
};

// Whether the files can be read and belong together, so that a mistake shows at start and not at
// the first handshake. INVALID_ARGUMENT naming the file.
absl::Status CheckTlsFiles(const TlsFiles& files);

// When the first certificate of a PEM file expires, in seconds since 1970. NOT_FOUND or
// INVALID_ARGUMENT naming the file.
absl::StatusOr<int64_t> CertificateExpiry(const std::string& file);

// Credentials that look at the files again every few seconds: a renewed certificate is used for the
// next handshake, connections that are open stay. REQUIRES: CheckTlsFiles(files).ok().
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles& files);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CERTIFICATES_H_
