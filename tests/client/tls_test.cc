// TLS, both ways. The certificate is its own authority, for the name histogram.test alone, and of
// no use outside this test.
#include <gtest/gtest.h>
#include <histogram/client.h>

#include <memory>
#include <string>

#include "tests/client/cli_world.h"
#include "tests/client/fake_server.h"

namespace histogram::client {
namespace {

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

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(bool mutual) {
  grpc::SslServerCredentialsOptions options(
      mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = kCertificate;
  options.pem_key_cert_pairs.push_back({kKey, kCertificate});
  return grpc::SslServerCredentials(options);
}

absl::Status Try(const FakeServer& server, const std::optional<TlsOptions>& tls) {
  const auto client = Client::Connect(server.address(), {.tls = tls, .attempts_max = 1});
  if (!client.ok()) return client.status();
  return (*client)->Compute(v1::Spec(), "abc").status();
}

TEST(Tls, ServesWhoTrustsIt) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(false));
  EXPECT_EQ(
      Try(server, TlsOptions{.root_certificates = kCertificate, .server_name = "histogram.test"}),
      absl::OkStatus());
}

TEST(Tls, RefusesAWrongNameAnUnknownAuthorityAndPlaintext) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(false));
  EXPECT_TRUE(absl::IsUnavailable(
      Try(server, TlsOptions{.root_certificates = kCertificate, .server_name = "other.test"})));
  EXPECT_TRUE(absl::IsUnavailable(Try(server, TlsOptions{.server_name = "histogram.test"})));
  EXPECT_TRUE(absl::IsUnavailable(Try(server, std::nullopt)));
  EXPECT_EQ(server.seen().calls, 0);
}

TEST(Tls, MutualNeedsTheClientsCertificate) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(true));
  TlsOptions tls = {.root_certificates = kCertificate, .server_name = "histogram.test"};
  EXPECT_TRUE(absl::IsUnavailable(Try(server, tls)));
  EXPECT_EQ(server.seen().calls, 0);
  tls.certificate_chain = kCertificate;
  tls.private_key = kKey;
  EXPECT_EQ(Try(server, tls), absl::OkStatus());
}

TEST(Tls, ByTheCommandLine) {
  const FakeServer server(Script(), "127.0.0.1:0", ServerCredentials(true));
  const std::string cert = cli::TestFile("cert.pem", kCertificate);
  const std::string key = cli::TestFile("key.pem", kKey);
  cli::World world;
  EXPECT_EQ(world.Run({"--server", server.address(), "--tls", "--tls-ca", cert, "--tls-cert", cert,
                       "--tls-key", key, "--tls-server-name", "histogram.test", "health"}),
            0)
      << world.err();
  EXPECT_EQ(world.Run({"--server", server.address(), "--tls", "--tls-ca", cert, "health"}), 1);
  EXPECT_NE(world.err().find("--tls options"), std::string::npos) << world.err();
}

}  // namespace
}  // namespace histogram::client
