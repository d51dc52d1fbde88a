// TLS for the listeners: certificates from files, read, checked and swapped while the server runs.
//
// gRPC's own watcher uses whatever it finds: an empty file aborts the process, and half a renewal
// refuses every handshake. So gRPC watches files in memory, and only checked certificates get
// there.
#ifndef HISTOGRAM_SERVER_RPC_CERTIFICATES_H_
#define HISTOGRAM_SERVER_RPC_CERTIFICATES_H_

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::server {

struct TlsFiles {
  std::string certificate;  // PEM chain of this server
  std::string key;          // PEM
  std::string client_ca;    // PEM; with it a client must show a certificate that leads to it (mTLS)
};

// Not thread-safe. Outlives the servers that use its credentials.
class TlsCertificates {
 public:
  // INVALID_ARGUMENT naming the file that cannot be used, or the pair that does not fit.
  static absl::StatusOr<std::unique_ptr<TlsCertificates>> Load(const TlsFiles& files);
  ~TlsCertificates();
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // Reads the files again; true if they have changed. An error, as from Load, leaves the former
  // certificates in force. A handshake that begins two seconds later sees the new ones; connections
  // that are open stay.
  absl::StatusOr<bool> Reload();

  // When the first certificate in force of each file expires, in seconds since 1970.
  const std::map<std::string, int64_t>& expiry() const { return expiry_; }

  // A sentence for each certificate in force that has expired or is not yet valid, once after Load
  // and after each Reload that returned true.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

  std::shared_ptr<grpc::ServerCredentials> MakeCredentials() const;

 private:
  // A descriptor of an anonymous file, to which gRPC's watcher is pointed by its name in /proc.
  class MemoryFile {
   public:
    ~MemoryFile();
    // Replaces the whole file at once; false if it holds that text already.
    absl::StatusOr<bool> Set(const std::string& text);
    std::string Path() const;

   private:
    int fd_ = -1;
    int64_t version_ = 0;
    std::string text_;
  };

  explicit TlsCertificates(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  MemoryFile identity_;  // chain and key in one file, so that both change at once
  MemoryFile client_ca_;
  std::map<std::string, int64_t> expiry_;
  std::vector<std::string> notes_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CERTIFICATES_H_
