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
        "unix:x", "unix-abstract:x", "dns:///host:50051", "ipv4:1.2.3.4:5,6.7.8.9:1"}) {
    EXPECT_TRUE(CheckAddress(address).ok()) << address << ": " << CheckAddress(address);
  }
}

TEST(CheckAddress, RefusesWhatGrpcWouldMisunderstand) {
  for (const char* const address : {"", "host", "host:", ":1", "host:0", "host:65536", "host:http",
                                    "::1", "::1:50051", "http://host:80", "https://host"}) {
    EXPECT_EQ(CheckAddress(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_THAT(std::string(CheckAddress("host").message()), HasSubstr("\"host\" has no port"));
  EXPECT_THAT(std::string(CheckAddress(":1").message()), HasSubstr("\":1\" has no host"));
  EXPECT_THAT(std::string(CheckAddress("host:0").message()),
              HasSubstr("\"host:0\" must be a whole number from 1 to 65535"));
}

TEST(IsLocalAddress, MeansThisMachine) {
  for (const char* const address : {"unix:/x", "127.0.0.1:1", "127.9.9.9:1", "localhost:1",
                                    "[::1]:1", "dns:///localhost:1", "ipv4:127.0.0.1:1"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* const address : {"10.0.0.1:1", "127.example.com:1", "localhost.example.com:1",
                                    "host:127", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
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

TEST(ServiceConfig, RetriesComputeAndDescribeOnly) {
  const auto config = nlohmann::json::parse(ServiceConfig({}, false));
  ASSERT_EQ(config["methodConfig"].size(), 1);
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
