#include "client/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace histogram::client {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, Free> Open(const std::string& pem) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// The first certificate; null where there is none. Leaves no error behind for others.
std::unique_ptr<X509, Free> ReadCertificate(const std::string& pem) {
  const auto bio = Open(pem);
  std::unique_ptr<X509, Free> certificate(
      PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

// Null also where a passphrase is wanted: nobody is asked for one.
std::unique_ptr<EVP_PKEY, Free> ReadKey(const std::string& pem) {
  const auto bio = Open(pem);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

}  // namespace

absl::Status CheckCertificates(const std::string& pem) {
  if (ReadCertificate(pem) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("holds no certificate in PEM");
}

absl::Status CheckPrivateKey(const std::string& pem) {
  if (ReadKey(pem) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("holds no private key in PEM, or an encrypted one");
}

absl::Status CheckKeyOfCertificate(const std::string& certificates, const std::string& key) {
  const bool match =
      X509_check_private_key(ReadCertificate(certificates).get(), ReadKey(key).get()) == 1;
  ERR_clear_error();
  if (match) return absl::OkStatus();
  return absl::InvalidArgumentError("holds the key of another certificate");
}

}  // namespace histogram::client
