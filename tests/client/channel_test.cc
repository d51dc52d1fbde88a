#include "client/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "client/codec.h"

namespace histogram::client {
namespace {

using ::testing::HasSubstr;

TEST(CheckAddress, TakesWhatGrpcTakes) {
  for (const char* const address :
       {"127.0.0.1:50051", "localhost:1", "host.example:65535", "[::1]:50051", "unix:/tmp/x",
        "unix:x", "unix-abstract:x", "unix:///x", "dns:///host:50051", "dns:host:1",
        "dns://8.8.8.8/host:1", "dns://8.8.8.8:53/host:1", "ipv4:1.2.3.4:5,6.7.8.9:1",
        "ipv6:[::1]:1", "ipv6:%5B::1%5D:1", "[fe80::1%eth0]:1"}) {
    EXPECT_TRUE(CheckAddress(address).ok()) << address << ": " << CheckAddress(address);
  }
}

TEST(CheckAddress, RefusesWhatGrpcWouldMisunderstand) {
  for (const char* const address : {"",
                                    "host:",
                                    "host:65536",
                                    "host:http",
                                    "host:+1",
                                    "host:1 ",
                                    " host:1",
                                    "host:1\n",
                                    "ho st:1",
                                    "host:1/",
                                    "::1",
                                    "::1:50051",
                                    "[::1]",
                                    "[::1]:",
                                    "https://host",
                                    "grpc://host:1",
                                    "unix-abstract:",
                                    "unix:///",
                                    "unix://x",
                                    "unix://x/y",
                                    "dns:",
                                    "dns:host",
                                    "dns:///host",
                                    "dns:///",
                                    "dns://8.8.8.8",
                                    "host:1,host:2"}) {
    EXPECT_EQ(CheckAddress(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_THAT(std::string(CheckAddress("unix:").message()),
              HasSubstr("\"unix:\" has no path; write HOST:PORT"));
  EXPECT_THAT(std::string(CheckAddress("http://host:80").message()),
              HasSubstr("is a URL; TLS is chosen by its own option; write HOST:PORT"));
  EXPECT_THAT(std::string(CheckAddress("unix:" + std::string(200, 'x')).message()),
              HasSubstr("200 bytes; the limit of a socket is 107"));
  EXPECT_THAT(std::string(CheckAddress("::1:50051").message()), HasSubstr("is written as [V6]:"));
  EXPECT_THAT(std::string(CheckAddress("host").message()), HasSubstr("\"host\" has no port"));
  EXPECT_THAT(std::string(CheckAddress(":1").message()), HasSubstr("\":1\" has no host"));
  EXPECT_THAT(std::string(CheckAddress("host:0").message()),
              HasSubstr("\"host:0\" must be a whole number from 1 to 65535"));
}

TEST(IsLocalAddress, MeansThisMachine) {
  for (const char* const address : {"unix:/x", "127.0.0.1:1", "127.9.9.9:1", "localhost:1",
                                    "[::1]:1", "LOCALHOST:1", "0.0.0.0:1", "[::]:1"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* const address : {"10.0.0.1:1", "127.example.com:1", "localhost.example.com:1",
                                    "host:127", "ipv4:127.0.0.1:1,10.0.0.1:1", "[::2]:1",
                                    "[::ffff:10.0.0.1]:1", "dns://10.0.0.1/localhost:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

TEST(MayUseProxy, NotToThisMachineAndNotWithATokenInClear) {
  const ConnectOptions token = {.bearer_token = "t", .bearer_token_without_tls = true};
  EXPECT_TRUE(MayUseProxy("host:1", {}));
  EXPECT_TRUE(MayUseProxy("host:1", {.tls = TlsOptions(), .bearer_token = "t"}));
  EXPECT_FALSE(MayUseProxy("host:1", token));
  for (const char* const local : {"127.0.0.1:1", "unix:/x", "[::1]:1"}) {
    EXPECT_FALSE(MayUseProxy(local, {})) << local;
    EXPECT_FALSE(MayUseProxy(local, {.tls = TlsOptions()})) << local;
  }
}

TEST(CheckOptions, NamesWhatIsWrong) {
  const std::string address = "host:1";
  EXPECT_TRUE(CheckOptions(address, {}).ok());
  EXPECT_THAT(std::string(CheckOptions(address, {.attempts_max = 6}).message()),
              HasSubstr("attempts_max must be from 1 to 5, not 6"));
  EXPECT_THAT(std::string(CheckOptions(address, {.bearer_token = "x"}).message()),
              HasSubstr("unencrypted"));
  EXPECT_TRUE(CheckOptions(address, {.tls = TlsOptions(), .bearer_token = "x"}).ok());
  EXPECT_THAT(std::string(CheckOptions("unix:/x", {.bearer_token = "two words"}).message()),
              HasSubstr("printable"));
  EXPECT_FALSE(CheckOptions(address, {.tls = TlsOptions{.private_key = "k"}}).ok());
  EXPECT_EQ(CheckOptions(address, {.tls = TlsOptions{.root_certificates = "x"}}).message(),
            "tls.root_certificates holds no certificate in PEM");
  EXPECT_FALSE(CheckOptions(address, {.keepalive = absl::Seconds(9)}).ok());
  EXPECT_FALSE(CheckOptions(address, {.backoff_initial = absl::ZeroDuration()}).ok());
}

TEST(ServiceConfig, NoRetryIsDueAtOnce) {
  const ConnectOptions options = {.backoff_initial = absl::Microseconds(1),
                                  .backoff_max = absl::Milliseconds(1)};
  const auto config = nlohmann::json::parse(ServiceConfig(options, false));
  const auto& policy = config["methodConfig"][0]["retryPolicy"];
  EXPECT_EQ(policy["initialBackoff"], "0.002s");
  EXPECT_EQ(policy["maxBackoff"], "0.002s");
}

TEST(ServiceConfig, ABackoffForEverIsStillANumber) {
  const ConnectOptions options = {.backoff_initial = absl::InfiniteDuration(),
                                  .backoff_max = absl::InfiniteDuration()};
  const auto config = nlohmann::json::parse(ServiceConfig(options, false));
  EXPECT_EQ(config["methodConfig"][0]["retryPolicy"]["maxBackoff"], "1000000000.000s");
}

TEST(ServiceConfig, RetriesAllButAccumulate) {
  const auto config = nlohmann::json::parse(ServiceConfig({}, false));
  ASSERT_EQ(config["methodConfig"].size(), 2);
  const auto& many = config["methodConfig"][1];
  EXPECT_EQ(many["name"][0]["method"], "ComputeMany");
  EXPECT_EQ(many["retryPolicy"]["retryableStatusCodes"], nlohmann::json({"UNAVAILABLE"}));
  const auto& method = config["methodConfig"][0];
  ASSERT_EQ(method["name"].size(), 2);
  EXPECT_EQ(method["name"][0]["method"], "Compute");
  EXPECT_EQ(method["name"][1]["method"], "Describe");
  EXPECT_EQ(method["retryPolicy"]["retryableStatusCodes"],
            nlohmann::json({"UNAVAILABLE", "RESOURCE_EXHAUSTED"}));
  EXPECT_EQ(config["healthCheckConfig"]["serviceName"], "histogram.v1.HistogramService");
  EXPECT_TRUE(config["loadBalancingConfig"][0].contains("round_robin"));
}

TEST(ServiceConfig, AdminTakesAnyServer) {
  const auto config = nlohmann::json::parse(ServiceConfig({}, true));
  EXPECT_FALSE(config.contains("healthCheckConfig"));
  EXPECT_TRUE(config["loadBalancingConfig"][0].contains("pick_first"));
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

class Codec : public ::testing::TestWithParam<size_t> {
 protected:
  Codec() : payload_(GetParam(), 'p') {
    spec_.mutable_binning()->mutable_even()->set_bin_count(10);
    spec_.add_quantiles(0.5);
  }
  v1::Spec spec_;
  std::string payload_;
};

// Sizes around each length of a varint, and of a slice that holds its own bytes.
INSTANTIATE_TEST_SUITE_P(Sizes, Codec,
                         ::testing::Values(0, 1, 23, 24, 100, 127, 128, 16383, 16384, 3000000));

TEST_P(Codec, ComputeIsWhatProtobufWrites) {
  v1::ComputeRequest expected;
  *expected.mutable_spec() = spec_;
  expected.set_payload(payload_);
  EXPECT_EQ(Bytes(EncodeCompute(spec_.SerializeAsString(), OwningSlice(payload_))),
            expected.SerializeAsString());
}

TEST_P(Codec, ComputeManyIsWhatProtobufWrites) {
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, uint64_t{300}, ~uint64_t{0}}) {
    v1::ComputeManyRequest expected;
    expected.set_request_id(id);
    *expected.mutable_request()->mutable_spec() = spec_;
    expected.mutable_request()->set_payload(payload_);
    EXPECT_EQ(Bytes(EncodeComputeMany(id, spec_.SerializeAsString(), OwningSlice(payload_))),
              expected.SerializeAsString());
  }
}

TEST_P(Codec, AccumulateIsWhatProtobufWrites) {
  v1::AccumulateRequest expected;
  expected.set_chunk(payload_);
  EXPECT_EQ(Bytes(EncodeAccumulate(nullptr, false, OwningSlice(payload_))),
            expected.SerializeAsString());
  *expected.mutable_spec() = spec_;
  expected.set_snapshot(true);
  EXPECT_EQ(Bytes(EncodeAccumulate(&spec_, true, OwningSlice(payload_))),
            expected.SerializeAsString());
}

}  // namespace
}  // namespace histogram::client
