// Checks PEM texts before gRPC gets them. For a bad text gRPC reports only that the connection
// fails. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_PEM_H_
#define HISTOGRAM_CLIENT_PEM_H_

#include <string>

#include "absl/status/status.h"

namespace histogram::client {

// Each fails with INVALID_ARGUMENT and what is wrong with its last argument: "holds no ...".
absl::Status CheckCertificates(const std::string& pem);
absl::Status CheckPrivateKey(const std::string& pem);
// Checks that the two belong together. REQUIRES: each passes its own check.
absl::Status CheckKeyOfCertificate(const std::string& certificates, const std::string& key);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_PEM_H_
