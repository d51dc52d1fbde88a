// The log: every event is one line, valid and escaped whatever it carries.
#include "server/base/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace histogram::server {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

constexpr int64_t kTime = 1769860800123456;  // 2026-01-31T12:00:00.123456Z

// Restores the default whatever a test has set.
class LoggingTest : public testing::Test {
 protected:
  ~LoggingTest() override { InitLogging(LogLevel::kInfo, LogFormat::kText); }
};

TEST(FormatLogLine, TextHoldsTimeLevelEventAndFields) {
  EXPECT_EQ(
      FormatLogLine(LogFormat::kText, kTime, LogLevel::kInfo, "listening",
                    {{"address", "127.0.0.1:50051"}, {"port", 50051}, {"tls", false}}),
      "2026-01-31T12:00:00.123456Z info  listening address=127.0.0.1:50051 port=50051 tls=false");
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kTime, LogLevel::kError, "a\nb",
                          {{"empty", ""}, {"spaced", "x y"}, {"quote", "\"\n\x01"}}),
            "2026-01-31T12:00:00.123456Z error a\\nb spaced=\"x y\" "
            "quote=\"\\\"\\n\\u0001\"");
}

TEST(FormatLogLine, JsonIsValidAndKeepsTypesAndOrder) {
  const std::string line = FormatLogLine(LogFormat::kJson, kTime, LogLevel::kWarn, "lost \"it\"\n",
                                         {{"text", "a\\b\t\xff"},
                                          {"large", std::numeric_limits<uint64_t>::max()},
                                          {"negative", -3},
                                          {"yes", true},
                                          {"empty", ""}});
  EXPECT_THAT(
      line, testing::StartsWith(
                R"({"time":"2026-01-31T12:00:00.123456Z","level":"warn","event":"lost \"it\"\n")"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["text"], "a\\b\t\xEF\xBF\xBD");  // what is no UTF-8 is replaced
  EXPECT_EQ(json["large"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(json["negative"], -3);
  EXPECT_EQ(json["yes"], true);
  EXPECT_FALSE(json.contains("empty"));
}

TEST(FormatLogLine, LongValuesAreCutAtACharacter) {
  std::string text(kLogValueBytesMax - 1, 'a');
  text += "\xC3\xA4";  // its second byte is the first one over the limit
  text += std::string(1 << 20, 'b');
  const auto json = nlohmann::json::parse(
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kInfo, text, {{"value", text}}));
  const std::string cut = std::string(kLogValueBytesMax - 1, 'a') + "...";
  EXPECT_EQ(json["value"], cut);
  EXPECT_EQ(json["event"], cut);
}

TEST(FormatLogLine, EveryByteInAValueLeavesOneValidLine) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const std::string line =
        FormatLogLine(LogFormat::kJson, kTime, LogLevel::kInfo, text, {{"value", text}});
    EXPECT_TRUE(nlohmann::json::accept(line)) << byte;
    EXPECT_EQ(line.find('\n'), std::string::npos) << byte;
    const std::string plain =
        FormatLogLine(LogFormat::kText, kTime, LogLevel::kInfo, text, {{"value", text}});
    EXPECT_EQ(plain.find('\n'), std::string::npos) << byte;
  }
}

TEST_F(LoggingTest, WritesFromTheChosenLevelOn) {
  CaptureStderr();
  InitLogging(LogLevel::kWarn, LogFormat::kJson);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn));
  Log(LogLevel::kInfo, "not this");
  Log(LogLevel::kWarn, "but this", {{"n", 1}});
  InitLogging(LogLevel::kOff, LogFormat::kJson);
  Log(LogLevel::kError, "nor this");
  const std::string written = GetCapturedStderr();
  EXPECT_THAT(written, testing::EndsWith("\"event\":\"but this\",\"n\":1}\n"));
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 1);
}

TEST_F(LoggingTest, TimesAreUtcWithMicroseconds) {
  CaptureStderr();
  Log(LogLevel::kInfo, "100 % {} of %v");
  const std::string written = GetCapturedStderr();
  std::string shape = written;
  for (char& c : shape) {
    if (c >= '0' && c <= '9') c = '0';
  }
  EXPECT_EQ(shape, "0000-00-00T00:00:00.000000Z info  000 % {} of %v\n") << written;
}

TEST_F(LoggingTest, LinesOfSeveralThreadsDoNotMix) {
  constexpr int kThreads = 4, kLines = 200;
  CaptureStderr();
  InitLogging(LogLevel::kInfo, LogFormat::kJson);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i)
          Log(LogLevel::kInfo, "event", {{"thread", t}, {"line", i}});
      });
    }
  }
  std::istringstream written(GetCapturedStderr());
  std::string line;
  int lines = 0;
  while (std::getline(written, line)) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    ++lines;
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

}  // namespace
}  // namespace histogram::server
