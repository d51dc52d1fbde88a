// The config file's grammar.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOfText(absl::string_view text) {
  const auto entries = ParseConfigFile(text, "f.toml");
  return entries.ok() ? "no error" : std::string(entries.status().message());
}

TEST(ConfigFile, ReadsTomlAndIni) {
  const auto entries = ParseConfigFile(
      "# comment\r\n"
      "; comment\n"
      "\n"
      "  a = 12   # behind it\r\n"
      "b-c=bare words ; and a comment\n"
      "d = \"quoted # \\\"x\\\" \\\\ \\n\\t;\"\n"
      "e = 'C:\\raw'\n"
      "f = [ \"one\", 'two',three, ]  # a list\n"
      "g = []\n"
      "h = \"\"",
      "f.toml");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 7u);
  EXPECT_EQ((*entries)[0].key, "a");
  EXPECT_EQ((*entries)[0].line, 4);
  EXPECT_THAT((*entries)[0].values, ElementsAre("12"));
  EXPECT_THAT((*entries)[1].values, ElementsAre("bare words"));
  EXPECT_THAT((*entries)[2].values, ElementsAre("quoted # \"x\" \\ \n\t;"));
  EXPECT_THAT((*entries)[3].values, ElementsAre("C:\\raw"));
  EXPECT_THAT((*entries)[4].values, ElementsAre("one", "two", "three"));
  EXPECT_TRUE((*entries)[4].is_array);
  EXPECT_TRUE((*entries)[5].values.empty());
  EXPECT_EQ((*entries)[5].line, 9);
  EXPECT_THAT((*entries)[6].values, ElementsAre(""));
}

TEST(ConfigFile, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOfText("a = 1\n\na = 2\n"), "f.toml:3: 'a' is set twice, first on line 1");
  EXPECT_THAT(ErrorOfText("\n[section]\na = 1"), HasSubstr("f.toml:2: sections are not used"));
  EXPECT_THAT(ErrorOfText("a"), HasSubstr("f.toml:1: expected KEY = VALUE"));
  EXPECT_THAT(ErrorOfText("= 1"), HasSubstr("expected KEY = VALUE"));
  EXPECT_THAT(ErrorOfText("a b = 1"), HasSubstr("expected KEY = VALUE"));
  EXPECT_THAT(ErrorOfText("a ="), HasSubstr("a value is missing"));
  EXPECT_THAT(ErrorOfText("a = # none"), HasSubstr("a value is missing"));
  EXPECT_THAT(ErrorOfText("a = \"x\" y"), HasSubstr("extra text after the value of a"));
  EXPECT_THAT(ErrorOfText("a = \"x"), HasSubstr("closing quote"));
  EXPECT_THAT(ErrorOfText("a = \"x\\"), HasSubstr("closing quote"));
  EXPECT_THAT(ErrorOfText("a = \"\\q\""), HasSubstr("escape"));
  EXPECT_THAT(ErrorOfText("a = [1"), HasSubstr("closing ']'"));
  EXPECT_THAT(ErrorOfText("a = ["), HasSubstr("a value is missing"));
  EXPECT_THAT(ErrorOfText("a = [1,\n2]"), HasSubstr("f.toml:1: a value is missing"));
  EXPECT_THAT(ErrorOfText("a = [1 \"2\"]"), HasSubstr("comma"));
  EXPECT_THAT(ErrorOfText("a = [[1]]"), HasSubstr("a value is missing"));
  EXPECT_THAT(ErrorOfText(absl::string_view("\0\0\0", 3)), HasSubstr("expected KEY = VALUE"));
}

TEST(ConfigFile, EmptyFilesHoldNothing) {
  EXPECT_TRUE(ParseConfigFile("", "f")->empty());
  EXPECT_TRUE(ParseConfigFile("#", "f")->empty());
  EXPECT_TRUE(ParseConfigFile("\n\r\n  ;x", "f")->empty());
}

TEST(ConfigFile, WhatIsQuotedReadsBackTheSame) {
  for (const char* text : {"", "plain", "a\"b\\c", "tab\tline\nend", "#;[]',="}) {
    const auto entries = ParseConfigFile("k = " + QuoteForFile(text), "f");
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_THAT((*entries)[0].values, ElementsAre(text));
  }
}

TEST(ConfigFile, NoPrefixOfAFileCrashesTheReader) {
  const std::string text = "a = [\"x\\n\", 'y', z] # c\nb = \"\\\"\"\n;\nc = 1";
  for (size_t length = 0; length <= text.size(); ++length) {
    const auto entries = ParseConfigFile(absl::string_view(text).substr(0, length), "f");
    EXPECT_TRUE(entries.ok() || !entries.status().message().empty());
  }
}

TEST(ConfigFile, AFileThatCannotBeReadSaysWhy) {
  const auto missing = ReadConfigFile("/nonexistent/h.toml");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nonexistent/h.toml"));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("No such file"));
  EXPECT_THAT(std::string(ReadConfigFile("/").status().message()), HasSubstr("Is a directory"));
}

TEST(ConfigFile, APipeToWhichNobodyWritesIsRefused) {
  const std::string path = testing::TempDir() + "config_pipe" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadConfigFile(path).status().message()),
              HasSubstr(path + " is a pipe to which nobody writes"));
  // A writer that stops without an end counts as nobody, too.
  const int writer = open(path.c_str(), O_RDWR);
  ASSERT_EQ(write(writer, "a = 1\n", 6), 6);
  EXPECT_THAT(std::string(ReadConfigFile(path).status().message()),
              HasSubstr(path + " is a pipe to which nobody writes"));
  close(writer);
  std::remove(path.c_str());
}

TEST(ConfigFile, AFileThatNeverEndsIsRefused) {
  EXPECT_THAT(std::string(ReadConfigFile("/dev/zero").status().message()),
              HasSubstr("larger than"));
}

}  // namespace
}  // namespace histogram::server
