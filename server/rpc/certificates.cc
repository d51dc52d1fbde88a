#include "server/rpc/certificates.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "server/base/read_file.h"

namespace histogram::server {
namespace {

constexpr unsigned kRefreshSeconds = 2;

struct FreeOpenSsl {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeOpenSsl>;

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  absl::StatusOr<std::string> bytes = ReadFile(file);
  if (bytes.ok() && bytes->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is empty"));
  }
  return bytes;
}

absl::StatusOr<Owned<X509>> ReadCertificate(const std::string& file) {
  absl::StatusOr<std::string> pem = ReadPem(file);
  if (!pem.ok()) return pem.status();
  const Owned<BIO> bio(BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  Owned<X509> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(file, " holds no PEM certificate"));
  }
  return certificate;
}

absl::StatusOr<Owned<EVP_PKEY>> ReadKey(const std::string& file) {
  absl::StatusOr<std::string> pem = ReadPem(file);
  if (!pem.ok()) return pem.status();
  const Owned<BIO> bio(BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " holds no PEM private key that can be read without a passphrase"));
  }
  return key;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  const auto certificate = ReadCertificate(files.certificate);
  if (!certificate.ok()) return certificate.status();
  const auto key = ReadKey(files.key);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the private key in ", files.key,
                                                   " is not that of the certificate in ",
                                                   files.certificate));
  }
  return files.client_ca.empty() ? absl::OkStatus() : ReadCertificate(files.client_ca).status();
}

absl::StatusOr<int64_t> CertificateExpiry(const std::string& file) {
  const auto certificate = ReadCertificate(file);
  if (!certificate.ok()) return certificate.status();
  tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate->get()), &time) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": the date of expiry is not a date"));
  }
  return int64_t{timegm(&time)};
}

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles& files) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace histogram::server
