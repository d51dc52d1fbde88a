// Values of settings: what is read, what is refused, and how it is shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/read_file.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytes, ReadsDigitsAndBinarySuffixes) {
  EXPECT_EQ(ParseBytes("0").value(), 0u);
  EXPECT_EQ(ParseBytes("65536").value(), 65536u);
  EXPECT_EQ(ParseBytes("7B").value(), 7u);
  EXPECT_EQ(ParseBytes("64KiB").value(), uint64_t{64} << 10);
  EXPECT_EQ(ParseBytes("64 MiB").value(), uint64_t{64} << 20);
  EXPECT_EQ(ParseBytes("3gib").value(), uint64_t{3} << 30);
  EXPECT_EQ(ParseBytes("2TiB").value(), uint64_t{2} << 40);
  EXPECT_EQ(ParseBytes("18446744073709551615").value(), UINT64_MAX);
}

TEST(ParseBytes, RefusesWhatIsAmbiguousOrTooLarge) {
  for (const char* text : {"", " ", "MiB", "-1", "+1", "1.5MiB", "64MB", "64k", "64M", "1 MiB x",
                           "0x10", "1_000", "1e6", "18446744073709551616", "16777216TiB"}) {
    const auto value = ParseBytes(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(ParseDuration, ReadsUnitsAndFractionsOfThem) {
  EXPECT_EQ(ParseDuration("0").value(), 0u);
  EXPECT_EQ(ParseDuration("200us").value(), 200u);
  EXPECT_EQ(ParseDuration("5 ms").value(), 5000u);
  EXPECT_EQ(ParseDuration("1.5s").value(), 1500000u);
  EXPECT_EQ(ParseDuration("2m").value(), 120000000u);
  EXPECT_EQ(ParseDuration("2min").value(), 120000000u);
  EXPECT_EQ(ParseDuration("1h").value(), 3600000000u);
  EXPECT_EQ(ParseDuration("1h30m").value(), 5400000000u);
}

TEST(ParseDuration, RefusesWhatIsNotATime) {
  for (const char* text : {"", "s", "-1s", "0.5us", "1..5s", "1 s s", "1d", "nan", "inf", "x5s",
                           "99999999999999999999h", "100000000h"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(ParseDuration, SaysThatABareNumberLacksItsUnit) {
  for (const char* text : {"30", "1.5", "-1"}) {
    EXPECT_EQ(std::string(ParseDuration(text).status().message()),
              std::string("must be a time with its unit, such as 200us, 5ms, 1.5s, 30m or 2h; '") +
                  text + "' has no unit");
  }
}

TEST(Format, WritesWhatTheParsersRead) {
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1000), "1000B");
  EXPECT_EQ(FormatBytes(uint64_t{64} << 20), "64MiB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 30) + 1024), "1048577KiB");
  EXPECT_EQ(FormatDuration(0), "0");
  EXPECT_EQ(FormatDuration(1500), "1.5ms");
  EXPECT_EQ(FormatDuration(3000000), "3s");
  EXPECT_EQ(FormatDuration(uint64_t{720} * 3600 * 1000000), "720h");
  for (const uint64_t value : {uint64_t{1}, uint64_t{999999}, uint64_t{90061000001}}) {
    EXPECT_EQ(ParseDuration(FormatDuration(value)).value(), value);
    EXPECT_EQ(ParseBytes(FormatBytes(value)).value(), value);
  }
}

TEST(ParseAddress, ReadsTheThreeForms) {
  EXPECT_EQ(ParseAddress("127.0.0.1:50051")->host, "127.0.0.1");
  EXPECT_EQ(ParseAddress("127.0.0.1:50051")->port, 50051);
  EXPECT_EQ(ParseAddress("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseAddress("[::1]:0")->port, 0);
  EXPECT_EQ(ParseAddress("node-1.example:65535")->port, 65535);
  EXPECT_TRUE(ParseAddress("unix:/run/h.sock")->is_unix);
  EXPECT_EQ(ParseAddress("unix:/run/h.sock")->path, "/run/h.sock");
  EXPECT_EQ(ParseAddress("unix:///run/h.sock")->path, "/run/h.sock");
  EXPECT_EQ(ParseAddress("unix:h.sock")->path, "h.sock");
}

TEST(ParseAddress, RefusesEverythingElse) {
  for (const char* text :
       {"", ":", "50051", "localhost", ":50051", "localhost:", "localhost:x", "localhost:65536",
        "localhost:-1", "localhost:99999999999999999999", "256.0.0.1:1", "1.2.3:1", "::1:50051",
        "[::1]", "[::1:50051", "[127.0.0.1]:1", "[b:1", "http://x:1", "unix:"}) {
    EXPECT_FALSE(ParseAddress(text).ok()) << text;
  }
  EXPECT_EQ(std::string(ParseAddress("a b:1").status().message()),
            "must be HOST:PORT, [V6]:PORT or unix:PATH, with a port from 0 to 65535, not 'a b:1'");
  EXPECT_TRUE(ParseAddress("unix:" + std::string(107, 'a')).ok());
  const auto too_long = ParseAddress("unix:" + std::string(108, 'a'));
  EXPECT_THAT(std::string(too_long.status().message()), HasSubstr("107"));
}

TEST(ReadFile, AFileThatCannotBeReadSaysWhy) {
  const auto missing = ReadFile("/nonexistent/h.toml");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nonexistent/h.toml"));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("No such file"));
  EXPECT_THAT(std::string(ReadFile("/").status().message()), HasSubstr("Is a directory"));
}

TEST(ReadFile, AFileThatNeverEndsIsRefused) {
  EXPECT_THAT(std::string(ReadFile("/dev/zero").status().message()), HasSubstr("larger than"));
}

}  // namespace
}  // namespace histogram::server
