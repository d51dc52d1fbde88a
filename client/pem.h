// Checks of PEM texts before gRPC gets them: of one that it cannot use, gRPC only says that no
// connection comes about. Pure functions; thread-safe.
#ifndef HISTOGRAM_CLIENT_PEM_H_
#define HISTOGRAM_CLIENT_PEM_H_

#include <string>

#include "absl/status/status.h"

namespace histogram::client {

// Each fails with INVALID_ARGUMENT and what its last argument does wrong: "holds no ...".
absl::Status CheckCertificates(const std::string& pem);
absl::Status CheckPrivateKey(const std::string& pem);
// REQUIRES: both are good by themselves.
absl::Status CheckKeyOfCertificate(const std::string& certificates, const std::string& key);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_PEM_H_
