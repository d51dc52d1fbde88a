// Finds wrong dates of certificates. gRPC says only that a certificate is not trusted.
#ifndef HISTOGRAM_CLIENT_CLI_CERTIFICATE_H_
#define HISTOGRAM_CLIENT_CLI_CERTIFICATE_H_

#include <string>

namespace histogram::cli {

// Of the certificate that the TLS server at HOST:PORT shows now, or of the CA above it that `ca`
// (a PEM file; empty: the system's) has. Says "has expired, on DATE" and the like. Empty if the
// dates are right, or the server does not answer within two seconds.
std::string ServersDateFault(const std::string& address, const std::string& server_name,
                             const std::string& ca);
// Of the first certificate in a PEM file. Empty if its dates are right, or it cannot be read.
std::string FilesDateFault(const std::string& path);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_CERTIFICATE_H_
