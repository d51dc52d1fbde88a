// Tokens, quotas and trace headers, without a network.
#include "server/service/authenticator.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/service/caller.h"
#include "tests/test_path.h"

namespace histogram::server {
namespace {

constexpr uint64_t kBurst = 1000;
constexpr TimeNs kSecond = 1000000000;

class AuthenticatorTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(file_, std::ios::trunc) << text; }
  const std::string file_ = TestPath("tokens");
};

TEST_F(AuthenticatorTest, KnowsTenantsByTheirTokens) {
  Write("# tenants\nalice aaaaaaaaaaaaaaaaaaaa\n\nbob bbbbbbbbbbbbbbbbbbbb 500  # slow\n");
  const auto authenticator = *Authenticator::Load(file_, kBurst);
  EXPECT_EQ((*authenticator->Authenticate("Bearer aaaaaaaaaaaaaaaaaaaa"))->name(), "alice");
  EXPECT_EQ((*authenticator->Authenticate("bearer bbbbbbbbbbbbbbbbbbbb"))->bytes_per_second(),
            500U);
  for (const char* bad : {"", "Bearer ", "Bearer aaaaaaaaaaaaaaaaaaa", "Basic aaaaaaaaaaaaaaaaaaaa",
                          "aaaaaaaaaaaaaaaaaaaa", "Bearer aaaaaaaaaaaaaaaaaaaa "}) {
    const absl::Status status = authenticator->Authenticate(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << '"' << bad << '"';
    EXPECT_EQ(GetErrorDetail(status).reason, "UNAUTHENTICATED");
  }
}

TEST_F(AuthenticatorTest, AHashInsideATokenIsPartOfIt) {
  Write("# all\nalice aaaaaaaaaaaaaaaa#bbbb # a comment\n");
  const auto authenticator = *Authenticator::Load(file_, kBurst);
  EXPECT_TRUE(authenticator->Authenticate("Bearer aaaaaaaaaaaaaaaa#bbbb").ok());
  EXPECT_FALSE(authenticator->Authenticate("Bearer aaaaaaaaaaaaaaaa").ok());
}

TEST_F(AuthenticatorTest, BadFilesNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"alice aaaaaaaaaaaaaaaaaaaa\nbob\n", "line 2"},
      {"alice short\n", "16 characters"},
      {"alice aaaaaaaaaaaaaaaaaaa\x01\n", "visible ASCII"},
      {"al/ice aaaaaaaaaaaaaaaaaaaa\n", "a name is"},
      {"alice aaaaaaaaaaaaaaaaaaaa much\n", "whole number"},
      {"alice aaaaaaaaaaaaaaaaaaaa 0\n", "above 0"},
      {"alice aaaaaaaaaaaaaaaaaaaa\nbob aaaaaaaaaaaaaaaaaaaa\n", "given twice"},
      {"alice aaaaaaaaaaaaaaaaaaaa 5\nalice bbbbbbbbbbbbbbbbbbbb 6\n", "another quota"},
      {"# nothing\n", "no token"},
  };
  for (const auto& [text, expected] : cases) {
    Write(text);
    const absl::Status status = Authenticator::Load(file_, kBurst).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(expected), absl::string_view::npos) << status.message();
  }
  EXPECT_EQ(Authenticator::Load(file_ + ".none", kBurst).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(AuthenticatorTest, TheNumberOfTenantsIsBounded) {
  std::string text;
  for (size_t i = 0; i < kTenantsMax; ++i) {
    text += "tenant" + std::to_string(i) + " token-of-tenant-" + std::to_string(i) + "\n";
  }
  Write(text);
  EXPECT_TRUE(Authenticator::Load(file_, kBurst).ok());
  Write(text + "onemore token-of-one-more\n");
  EXPECT_FALSE(Authenticator::Load(file_, kBurst).ok());
}

TEST(TenantTest, TheBudgetFillsAtTheQuota) {
  Tenant tenant("t", 1000, 4000);
  EXPECT_TRUE(tenant.Charge(4000, kSecond).ok());  // the burst
  const absl::Status refused = tenant.Charge(500, kSecond);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(refused).reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(GetErrorDetail(refused).limit, 1000U);
  EXPECT_EQ(GetErrorDetail(refused).retry_after_ms, 500U);
  EXPECT_FALSE(tenant.Charge(500, kSecond + kSecond / 4).ok());
  EXPECT_TRUE(tenant.Charge(500, kSecond + kSecond / 2).ok());
  // An idle hour saves up one burst and no more.
  EXPECT_FALSE(tenant.Charge(4001, 3600 * kSecond).ok());
  EXPECT_TRUE(tenant.Charge(4000, 3600 * kSecond).ok());
}

TEST(TenantTest, WhatIsRefusedAfterwardsIsGivenBack) {
  Tenant tenant("t", 1000, 4000);
  EXPECT_TRUE(tenant.Charge(4000, kSecond).ok());
  tenant.Refund(3000);
  EXPECT_TRUE(tenant.Charge(3000, kSecond).ok());
  EXPECT_FALSE(tenant.Charge(1, kSecond).ok());
}

TEST(TenantTest, RepliesAreOwedAndPaidFirst) {
  Tenant tenant("t", 1000, 4000);
  tenant.ChargeReply(6000, kSecond);
  const absl::Status refused = tenant.Charge(0, kSecond);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << "of no bytes, too";
  EXPECT_EQ(GetErrorDetail(refused).retry_after_ms, 2000U);
  EXPECT_TRUE(tenant.Charge(0, 3 * kSecond).ok());
}

TEST(TenantTest, WithoutAQuotaNothingIsRefused) {
  Tenant tenant("t", 0, 10);
  EXPECT_TRUE(tenant.Charge(uint64_t{1} << 40, kSecond).ok());
}

TEST(TraceTest, OnlyValidTraceparentsAreTaken) {
  EXPECT_TRUE(IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  for (const char* bad : {"", "00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                          "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
                          "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(IsTraceparent(bad)) << bad;
  }
}

}  // namespace
}  // namespace histogram::server
