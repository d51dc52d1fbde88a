// TLS, both ways. The certificate is its own authority, for the name histogram.test alone, and of
// no use outside this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <histogram/client.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/cli_world.h"
#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

using ::testing::HasSubstr;

constexpr char kCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBozCCAUqgAwIBAgIUUnnv7eo+JYfyG5QT9StueR8OKGEwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOaGlzdG9ncmFtLnRlc3QwIBcNMjYxMTIxMDQ1ODU2WhgPMjEy
NjEwMjgwNDU4NTZaMBkxFzAVBgNVBAMMDmhpc3RvZ3JhbS50ZXN0MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE9yoB9etyjudSWNaYVPtb754Jug7UDf+yU6aB2NAn
tmvk0EASY0NH5DZvhhJTzDltESGZIeIRDl6JfY8un98K06NuMGwwHQYDVR0OBBYE
FIo693glBR85kH9KLTBGDTYdUFWqMB8GA1UdIwQYMBaAFIo693glBR85kH9KLTBG
DTYdUFWqMBkGA1UdEQQSMBCCDmhpc3RvZ3JhbS50ZXN0MA8GA1UdEwEB/wQFMAMB
Af8wCgYIKoZIzj0EAwIDRwAwRAIgPkx/HGlkeyg2CA2Mrj/1L4zRYrxk1mzrRu01
Doy5/AkCIFd6zRmsQK3MTsVaGHBHeoAEccnhaeBFdNVZ8ZMzEGBT
-----END CERTIFICATE-----
)";

constexpr char kKey[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4Vtzyz8jEKTqQ4dz
VEpsIzwzBSrimvc7ydIdHx7+rB+hRANCAAT3KgH163KO51JY1phU+1vvngm6DtQN
/7JTpoHY0Ce2a+TQQBJjQ0fkNm+GElPMOW0RIZkh4hEOXol9jy6f3wrT
-----END PRIVATE KEY-----
)";

constexpr char kOtherKey[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8NDt/HZijlRMZZXo
MugT2QE0en/F82DphndQ6FXYviShRANCAARtbi6PE1txQe3hC0v/gWF7s+RkG9c7
6FN1owWcP9bo7IrVpuIELeoDZ27ca6Omm5OG2mdUq1Y1NWJuRQEyPZNb
-----END PRIVATE KEY-----
)";

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(bool mutual) {
  grpc::SslServerCredentialsOptions options(
      mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = kCertificate;
  options.pem_key_cert_pairs.push_back({kKey, kCertificate});
  return grpc::SslServerCredentials(options);
}

class TlsByTheCommandLine : public ::testing::Test {
 protected:
  // The exit code; what it complains about is in error().
  int Run(const FakeServer& server, std::vector<std::string> options) {
    options.insert(options.begin(), {"--server", server.address()});
    options.emplace_back("describe");
    return world_.Run(std::move(options));
  }
  std::string error() const { return world_.err(); }

  const std::string cert_ = cli::TestFile("cert.pem", kCertificate);
  const std::string key_ = cli::TestFile("key.pem", kKey);
  const std::vector<std::string> good_ = {"--tls", "--tls-ca", cert_, "--tls-server-name",
                                          "histogram.test"};

 private:
  cli::World world_;
};

TEST_F(TlsByTheCommandLine, Mutual) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(true));
  std::vector<std::string> options = good_;
  EXPECT_EQ(Run(server, options), 1);
  EXPECT_THAT(error(), HasSubstr("may require a client certificate"));
  options.insert(options.end(), {"--tls-cert", cert_, "--tls-key", key_});
  EXPECT_EQ(Run(server, options), 0) << error();
}

TEST_F(TlsByTheCommandLine, EachFailureNamesItsReason) {
  const FakeServer secure(Script(), "127.0.0.1:0", ServerCredentials(false));
  const FakeServer plain;
  EXPECT_EQ(Run(secure, good_), 0) << error();
  EXPECT_EQ(Run(secure, {}), 1);
  EXPECT_THAT(error(), HasSubstr("if it speaks TLS, add --tls"));
  EXPECT_EQ(Run(plain, good_), 1);
  EXPECT_THAT(error(), HasSubstr("does not speak TLS; leave out --tls"));
  EXPECT_EQ(Run(secure, {"--tls"}), 1);
  EXPECT_THAT(error(), HasSubstr("name its CA with --tls-ca"));
  EXPECT_EQ(Run(secure, {"--tls", "--tls-ca", cert_, "--tls-server-name", "other.test"}), 1);
  EXPECT_THAT(error(), HasSubstr("is for another name"));
}

TEST_F(TlsByTheCommandLine, FilesThatCannotBeUsed) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(false));
  const std::string other = cli::TestFile("other.pem", kOtherKey);
  EXPECT_EQ(Run(server, {"--tls", "--tls-ca", key_}), 1);
  EXPECT_THAT(error(), HasSubstr("--tls-ca: " + key_ + " holds no certificate in PEM"));
  const std::string empty = cli::TestFile("empty", "");
  EXPECT_EQ(Run(server, {"--tls", "--tls-ca", empty}), 1);
  EXPECT_THAT(error(), HasSubstr(empty + " is empty"));
  EXPECT_EQ(Run(server, {"--tls", "--tls-cert", cert_, "--tls-key", cert_}), 1);
  EXPECT_THAT(error(), HasSubstr("--tls-key: " + cert_ + " holds no private key in PEM"));
  EXPECT_EQ(Run(server, {"--tls", "--tls-cert", key_, "--tls-key", key_}), 1);
  EXPECT_THAT(error(), HasSubstr("--tls-cert: " + key_ + " holds no certificate in PEM"));
  EXPECT_EQ(Run(server, {"--tls", "--tls-cert", cert_, "--tls-key", other}), 1);
  EXPECT_THAT(error(), HasSubstr("--tls-key: " + other + " holds the key of another certificate"));
}

}  // namespace
}  // namespace histogram::client
