#include "server/rpc/certificates.h"

#include <fcntl.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/read_file.h"

namespace histogram::server {
namespace {

constexpr unsigned kRefreshSeconds = 1;

struct FreeOpenSsl {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeOpenSsl>;

// Without it OpenSSL asks on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  absl::StatusOr<std::string> bytes = ReadFile(file);
  if (bytes.ok() && bytes->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is empty"));
  }
  return bytes;
}

// Sets the expiry of `file` to that of its first certificate.
absl::StatusOr<std::vector<Owned<X509>>> ReadCertificates(const std::string& file,
                                                          std::map<std::string, int64_t>& expiry) {
  absl::StatusOr<std::string> pem = ReadPem(file);
  if (!pem.ok()) return pem.status();
  const Owned<BIO> bio(BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  std::vector<Owned<X509>> certificates;
  ERR_clear_error();
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": certificate ", certificates.size() + 1, " is cut off or damaged"));
  }
  if (certificates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " holds no PEM certificate"));
  }
  tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificates.front().get()), &time) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": the date of expiry is not a date"));
  }
  expiry[file] = int64_t{timegm(&time)};
  return certificates;
}

absl::StatusOr<Owned<EVP_PKEY>> ReadKey(const std::string& file) {
  absl::StatusOr<std::string> pem = ReadPem(file);
  if (!pem.ok()) return pem.status();
  const Owned<BIO> bio(BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " holds no PEM private key that can be read without a passphrase"));
  }
  return key;
}

// Whether OpenSSL serves with them: it refuses keys that are too short.
absl::Status CheckPair(const TlsFiles& files, X509* certificate, EVP_PKEY* key) {
  if (X509_check_private_key(certificate, key) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("the private key in ", files.key,
                                                   " is not that of the certificate in ",
                                                   files.certificate));
  }
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_method()));
  if (context == nullptr || SSL_CTX_use_certificate(context.get(), certificate) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("TLS cannot be served with ", files.certificate,
                                                   " and ", files.key, ": ",
                                                   reason == nullptr ? "no reason" : reason));
  }
  return absl::OkStatus();
}

std::string DateOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "a date that is none";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

std::vector<std::string> NotesOn(const std::string& file,
                                 const std::vector<Owned<X509>>& certificates) {
  std::vector<std::string> notes;
  for (size_t i = 0; i < certificates.size(); ++i) {
    const ASN1_TIME* begin = X509_get0_notBefore(certificates[i].get());
    const ASN1_TIME* end = X509_get0_notAfter(certificates[i].get());
    const std::string which = absl::StrCat(file, ": certificate ", i + 1);
    if (X509_cmp_current_time(end) < 0) {
      notes.push_back(absl::StrCat(which, " expired on ", DateOf(end), "; peers refuse it"));
    } else if (X509_cmp_current_time(begin) > 0) {
      notes.push_back(absl::StrCat(which, " is not valid before ", DateOf(begin),
                                   "; peers refuse it until then"));
    }
  }
  return notes;
}

std::string TextOf(const std::vector<Owned<X509>>& certificates, EVP_PKEY* key) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  for (const auto& certificate : certificates) PEM_write_bio_X509(bio.get(), certificate.get());
  if (key != nullptr) {
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  }
  char* text = nullptr;
  const auto bytes = static_cast<size_t>(BIO_get_mem_data(bio.get(), &text));
  return {text, bytes};
}

}  // namespace

TlsCertificates::MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<bool> TlsCertificates::MemoryFile::Set(const std::string& text) {
  if (text == text_) return false;
  const int fd = memfd_create("histogram-tls", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot hold the certificates in memory");
  // gRPC's watcher looks at the file's time, in whole seconds, before and after it reads the file,
  // and reads it again if the two differ.
  const timespec version{++version_, 0};
  const timespec times[2] = {version, version};
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || futimens(fd, times) != 0 || (fd_ >= 0 && dup3(fd, fd_, O_CLOEXEC) < 0)) {
    const std::string reason = strerror(errno);
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot hold the certificates in memory: ", reason));
  }
  if (fd_ >= 0) {
    close(fd);
  } else {
    fd_ = fd;
  }
  text_ = text;
  return true;
}

std::string TlsCertificates::MemoryFile::Path() const {
  return absl::StrCat("/proc/self/fd/", fd_);
}

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Load(const TlsFiles& files) {
  std::unique_ptr<TlsCertificates> certificates(new TlsCertificates(files));
  if (absl::Status s = certificates->Reload().status(); !s.ok()) return s;
  if (access(certificates->identity_.Path().c_str(), R_OK) != 0) {
    return absl::ErrnoToStatus(errno, "TLS needs /proc: cannot read /proc/self/fd");
  }
  return certificates;
}

TlsCertificates::~TlsCertificates() = default;

absl::StatusOr<bool> TlsCertificates::Reload() {
  std::map<std::string, int64_t> expiry;
  const auto chain = ReadCertificates(files_.certificate, expiry);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(files_.key);
  if (!key.ok()) return key.status();
  if (absl::Status s = CheckPair(files_, chain->front().get(), key->get()); !s.ok()) return s;
  std::vector<Owned<X509>> authorities;
  std::string client_ca;
  if (!files_.client_ca.empty()) {
    auto read = ReadCertificates(files_.client_ca, expiry);
    if (!read.ok()) return read.status();
    authorities = *std::move(read);
    client_ca = TextOf(authorities, nullptr);
  }
  // Nothing changes before all is checked.
  const absl::StatusOr<bool> new_identity = identity_.Set(TextOf(*chain, key->get()));
  if (!new_identity.ok()) return new_identity;
  const absl::StatusOr<bool> new_client_ca = client_ca_.Set(client_ca);
  if (!new_client_ca.ok()) return new_client_ca;
  expiry_ = std::move(expiry);
  if (*new_identity || *new_client_ca) {
    notes_ = NotesOn(files_.certificate, *chain);
    absl::c_move(NotesOn(files_.client_ca, authorities), std::back_inserter(notes_));
  }
  return *new_identity || *new_client_ca;
}

std::shared_ptr<grpc::ServerCredentials> TlsCertificates::MakeCredentials() const {
  namespace tls = grpc::experimental;
  const bool mutual = !files_.client_ca.empty();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      identity_.Path(), identity_.Path(), mutual ? client_ca_.Path() : "", kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace histogram::server
