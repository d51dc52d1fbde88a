#include "client/cli/certificate.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <memory>

namespace histogram::cli {
namespace {

constexpr int kSecondsMax = 2;

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
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

// A TLS connection to the server, whatever its certificate; null if there is none.
Owned<SSL> Handshake(SSL_CTX& context, const std::string& address, const std::string& name) {
  BIO* const connection = BIO_new_connect(address.c_str());
  Owned<SSL> ssl(SSL_new(&context));
  if (connection == nullptr || ssl == nullptr) return nullptr;
  SSL_set_bio(ssl.get(), connection, connection);
  if (BIO_do_connect_retry(connection, kSecondsMax, -1) != 1) return nullptr;
  int file = -1;
  BIO_get_fd(connection, &file);
  const timeval timeout{kSecondsMax, 0};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  SSL_set_tlsext_host_name(ssl.get(), const_cast<char*>(name.c_str()));  // the macro casts, too
  SSL_connect(ssl.get());  // a server that wants a certificate fails it after showing its own
  return ssl;
}

}  // namespace

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
  const std::string host = address.substr(0, address.rfind(':'));
  const Owned<SSL> ssl = Handshake(*context, address, server_name.empty() ? host : server_name);
  ERR_clear_error();
  const Owned<X509> shown(ssl == nullptr ? nullptr : SSL_get1_peer_certificate(ssl.get()));
  if (shown == nullptr) return "";
  if (std::string fault = DateFault(shown.get()); !fault.empty()) return fault;
  const int64_t verdict = SSL_get_verify_result(ssl.get());
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED) return "is of a CA whose certificate has expired";
  if (verdict == X509_V_ERR_CERT_NOT_YET_VALID)
    return "is of a CA whose certificate is not valid yet";
  return "";
}

std::string FilesDateFault(const std::string& path) {
  const Owned<BIO> file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) return "";
  const Owned<X509> certificate(PEM_read_bio_X509_AUX(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate == nullptr ? "" : DateFault(certificate.get());
}

}  // namespace histogram::cli
