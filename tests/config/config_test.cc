// Flags over environment over file over defaults; what is refused, and with which sentence.
#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::StatusOr<ParsedConfig> Parse(const std::vector<std::string>& arguments,
                                   const Variables& environment = {}) {
  std::vector<const char*> argv = {"histogram-server"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseConfig(static_cast<int>(argv.size()), argv.data(), environment);
}

// The arguments of a line, parted by blanks.
std::vector<std::string> Words(absl::string_view line) { return absl::StrSplit(line, ' '); }

std::string ErrorOf(const std::vector<std::string>& arguments, const Variables& environment = {}) {
  const auto parsed = Parse(arguments, environment);
  return parsed.ok() ? "no error" : std::string(parsed.status().message());
}

// A file that is gone after the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(absl::string_view text) {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0);
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "config_test_XXXXXX";
};

TEST(ParseConfig, DefaultsAreThoseOfTheHeaderAndAgreeWithEachOther) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->text, "");
  EXPECT_THAT(parsed->warnings, IsEmpty());
  const Config defaults;
  for (const Setting& setting : Settings()) {
    EXPECT_EQ(TextOf(setting, parsed->config), TextOf(setting, defaults)) << setting.name;
  }
}

TEST(ParseConfig, FlagsWinOverEnvironmentOverFileOverDefaults) {
  const TemporaryFile file(
      "streams-max = 10\nlanes = 10\nbin-count-max = 10\nlisten = 127.0.0.1:1\n");
  const Variables environment = {{"HISTSVC_STREAMS_MAX", "20"},
                                 {"HISTSVC_LANES", "20"},
                                 {"HISTSVC_LISTEN", "127.0.0.1:2,unix:/a"},
                                 {"HISTSVC_LOG_LEVEL", ""}};
  const auto parsed = Parse({"--config", file.path(), "--streams-max", "30"}, environment);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.transport.streams_max, 30u);
  EXPECT_EQ(parsed->config.backend.cuda_lanes, 20u);
  EXPECT_EQ(parsed->config.transport.bin_count_max, 10u);
  EXPECT_THAT(parsed->config.transport.listen, ElementsAre("127.0.0.1:2", "unix:/a"));
  EXPECT_EQ(parsed->config.log.level, LogLevel::kInfo);
}

TEST(ParseConfig, TheFileMayBeNamedByTheEnvironment) {
  const TemporaryFile file("streams-max = 11\n");
  const TemporaryFile other("streams-max = 12\n");
  const Variables environment = {{"HISTSVC_CONFIG", file.path()}};
  EXPECT_EQ(Parse({}, environment)->config.transport.streams_max, 11u);
  EXPECT_EQ(Parse({"--config", other.path()}, environment)->config.transport.streams_max, 12u);
}

TEST(ParseConfig, ReadsEveryKindOfValue) {
  const auto parsed = Parse(Words(
      "--listen=127.0.0.1:0 --listen [::1]:7 --queue-bytes-max 128MiB --batch-delay-max=1.5ms "
      "--drain-delay 0 --core-dumps --verify-fraction=0.5 --backend cuda --require-backend=cuda "
      "--on-device-loss exit --allow-plaintext=On --log-format json --force-kernel scalar "
      "--metrics-listen= --no-tune "
      "--lanes 8"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Config& config = parsed->config;
  EXPECT_THAT(config.transport.listen, ElementsAre("127.0.0.1:0", "[::1]:7"));
  EXPECT_EQ(config.batching.queue_bytes_max, uint64_t{128} << 20);
  EXPECT_EQ(config.batching.batch_delay_us_max, 1500u);
  EXPECT_EQ(config.transport.drain_delay_us, 0u);
  EXPECT_TRUE(config.core_dumps && config.transport.allow_plaintext);
  EXPECT_EQ(config.transport.verify_fraction, 0.5);
  EXPECT_EQ(config.backend.choice, BackendOptions::Choice::kCuda);
  EXPECT_TRUE(config.require_cuda);
  EXPECT_EQ(config.on_device_loss, OnDeviceLoss::kExit);
  EXPECT_EQ(config.log.format, LogFormat::kJson);
  EXPECT_EQ(config.backend.force_kernel, "scalar");
  EXPECT_EQ(config.metrics_listen, "");
  EXPECT_FALSE(config.backend.tune);
  EXPECT_EQ(config.backend.cuda_lanes, 8u);
}

TEST(ParseConfig, AnEmptyNameOfAFileIsRefused) {
  for (const char* const flag : {"--token-file", "--tls-cert", "--tls-client-ca", "--config"}) {
    const std::string error = absl::StrCat(flag, " must name a file; leave it out to have none");
    EXPECT_EQ(ErrorOf({flag, ""}), error);
    EXPECT_EQ(ErrorOf({absl::StrCat(flag, "=")}), error);
  }
  EXPECT_EQ(Parse({}, {{"HISTSVC_TOKEN_FILE", ""}})->config.transport.token_file, "");
}

TEST(ParseConfig, MistypedFlagsAreRefusedWithTheNearest) {
  EXPECT_EQ(ErrorOf({"--quue-bytes-max", "5"}),
            "unknown option --quue-bytes-max; did you mean --queue-bytes-max?");
  EXPECT_EQ(ErrorOf({"--queue_bytes_max=5"}),
            "unknown option --queue_bytes_max; did you mean --queue-bytes-max?");
  EXPECT_EQ(ErrorOf({"-listen", "x"}), "unknown option -listen; did you mean --listen?");
  EXPECT_EQ(ErrorOf({"--no-core-dump"}),
            "unknown option --no-core-dump; did you mean --no-core-dumps?");
  EXPECT_EQ(ErrorOf({"--colour"}), "unknown option --colour; --help-all lists the options");
  EXPECT_EQ(ErrorOf({"---"}), "unknown option ---; --help-all lists the options");
  EXPECT_THAT(ErrorOf({"serve"}), HasSubstr("unexpected argument 'serve'"));
  EXPECT_THAT(ErrorOf({"--", "serve"}), HasSubstr("unexpected argument '--'"));
  EXPECT_THAT(ErrorOf({"--listen", "127.0.0.1:1", "127.0.0.1:2"}),
              HasSubstr("unexpected argument '127.0.0.1:2'"));
}

TEST(ParseConfig, MissingAndRepeatedValuesAreRefused) {
  EXPECT_EQ(ErrorOf({"--queue-bytes-max"}),
            "--queue-bytes-max needs a value: --queue-bytes-max BYTES");
  EXPECT_EQ(ErrorOf({"--config"}), "--config needs a value: --config FILE");
  EXPECT_EQ(ErrorOf({"--lanes", "1", "--lanes", "2"}), "--lanes is given twice; give it once");
  EXPECT_EQ(ErrorOf({"--tune", "--no-tune"}), "--tune is given twice; give it once");
  EXPECT_THAT(ErrorOf({"--config", "a", "--config", "b"}), HasSubstr("given twice"));
}

TEST(ParseConfig, WrongValuesNameWhereTheyCameFrom) {
  EXPECT_EQ(ErrorOf({"--queue-bytes-max", "lots"}),
            "--queue-bytes-max must be a number of bytes such as 65536, 64KiB or 1GiB, not 'lots'");
  EXPECT_EQ(ErrorOf({"--verify-fraction", "1.5"}), "--verify-fraction must be 0 to 1, not 1.5");
  EXPECT_EQ(ErrorOf({"--verify-fraction=-0.1"}), "--verify-fraction must be 0 to 1, not -0.1");
  EXPECT_EQ(ErrorOf({"--bin-count-max", "16777217"}),
            "--bin-count-max must be 1 to 16777216, not 16777217");
  EXPECT_EQ(ErrorOf({"--bin-count-max", "99999999999"}),
            "--bin-count-max must be 1 to 16777216, not 99999999999");
  EXPECT_EQ(ErrorOf({"--backend", "gpu"}), "--backend must be one of auto, cpu, cuda, not 'gpu'");
  EXPECT_EQ(ErrorOf({"--log-level", "loud"}),
            "--log-level must be one of debug, info, warn, error, off, not 'loud'");
  EXPECT_THAT(ErrorOf({"--listen", "127.0.0.1:70000"}),
              HasSubstr("with a port from 0 to 65535, not '127.0.0.1:70000'"));
  EXPECT_THAT(ErrorOf({"--metrics-listen", "unix:/a"}), HasSubstr("must be HOST:PORT or off"));
  EXPECT_THAT(ErrorOf({"--verify-fraction", "nan"}), HasSubstr("must be a number such as 0.01"));
  EXPECT_THAT(ErrorOf({"--tune=maybe"}), HasSubstr("must be true or false, not 'maybe'"));
  EXPECT_THAT(ErrorOf({"--connection-age-max", "721h"}), HasSubstr("must be 0 to 720h, not 721h"));
  EXPECT_THAT(ErrorOf({}, {{"HISTSVC_LANES", "many"}}),
              HasSubstr("HISTSVC_LANES must be a whole number, not 'many'"));
  const TemporaryFile file("\nlanes = 257\n");
  EXPECT_THAT(ErrorOf({"--config", file.path()}),
              HasSubstr(file.path() + ":2: lanes must be 0 to 256, not 257"));
}

TEST(ParseConfig, AFlagDoesNotExcuseAWrongFile) {
  const TemporaryFile file("lanes = 257\n");
  EXPECT_THAT(ErrorOf({"--config", file.path(), "--lanes", "4"}), HasSubstr("lanes must be"));
}

TEST(ParseConfig, UnknownFileKeysAreRefusedWithTheNearest) {
  const TemporaryFile file("# mine\nqueue_bytes_max = 1\n");
  EXPECT_EQ(ErrorOf({"--config", file.path()}),
            file.path() + ":2: unknown setting queue_bytes_max; did you mean queue-bytes-max?");
  const TemporaryFile config("config = x\n");
  EXPECT_EQ(ErrorOf({"--config", config.path()}), config.path() + ":1: unknown setting config");
  const TemporaryFile none("listen = \"\"\n");
  EXPECT_THAT(ErrorOf({"--config", none.path()}), HasSubstr("listen needs at least one address"));
  EXPECT_THAT(ErrorOf({"--config", "/nonexistent/x"}), HasSubstr("cannot read /nonexistent/x"));
}

TEST(ParseConfig, ReadsAFileLineByLine) {
  const TemporaryFile file(
      "# comment\r\n\n  lanes = 12\r\nforce-kernel=bare words # ; \\\nlisten = 127.0.0.1:1\n"
      "port-file = \"quoted # \\\"x\\\" \\\\ \\n\\t;\"\ntls-key = \"\"\nlisten = \"unix:/a\"");
  const auto parsed = Parse({"--config", file.path()});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.backend.cuda_lanes, 12u);
  EXPECT_EQ(parsed->config.backend.force_kernel, "bare words # ; \\");
  EXPECT_EQ(parsed->config.port_file, "quoted # \"x\" \\ \n\t;");
  EXPECT_THAT(parsed->config.transport.listen, ElementsAre("127.0.0.1:1", "unix:/a"));
  EXPECT_EQ(parsed->origins.at("lanes"), file.path() + ":3: lanes");
}

TEST(ParseConfig, WrongLinesOfAFileAreNamed) {
  struct {
    absl::string_view text, message;
  } const files[] = {{"lanes = 1\n\nlanes = 2", ":3: lanes is given twice; give it once"},
                     {"\n[section]", ":2: expected KEY = VALUE"},
                     {"; comment", ":1: expected KEY = VALUE"},
                     {absl::string_view("\0\0", 2), ":1: expected KEY = VALUE"},
                     {"= 1", ":1: unknown setting "},
                     {"token-file =", ":1: a value is missing; write \"\" for an empty text"},
                     {"token-file = \"x", ":1: a string must end with its closing quote"},
                     {"token-file = \"x\" # mine", ":1: a string must end with its closing quote"},
                     {"token-file = \"x\\\"", ":1: a string must end with its closing quote"},
                     {"token-file = \"\\q\"", "the escapes"},
                     {"lanes = [1, 2]", ":1: lanes must be a whole number, not '[1, 2]'"}};
  for (const auto& [text, message] : files) {
    const TemporaryFile file(text);
    EXPECT_THAT(ErrorOf({"--config", file.path()}), HasSubstr(std::string(message)));
  }
}

TEST(ParseConfig, UnknownVariablesOnlyWarn) {
  const auto parsed = Parse({}, {{"HISTSVC_QUEUE_BYTE_MAX", "1"},
                                 {"HISTSVC_PORT", "tcp://10.0.0.1"},
                                 {"HISTSVC_SERVER", "127.0.0.1:50051"}});  // the client's
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_THAT(parsed->warnings, SizeIs(2));
  EXPECT_EQ(parsed->warnings[0],
            "unknown environment variable HISTSVC_QUEUE_BYTE_MAX is ignored; did you mean "
            "HISTSVC_QUEUE_BYTES_MAX?");
  EXPECT_THAT(parsed->warnings[1], HasSubstr("HISTSVC_PORT is ignored"));
}

TEST(ParseConfig, MetricsForOtherMachinesAreWarnedOf) {
  const auto parsed = Parse({"--metrics-listen", "0.0.0.0:9464"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_THAT(parsed->warnings, SizeIs(1));
  EXPECT_THAT(parsed->warnings[0], HasSubstr("--metrics-listen 0.0.0.0:9464"));
}

TEST(ParseConfig, ContradictionsNameBothSides) {
  struct {
    const char* arguments;
    const char *first, *second;  // both are named
  } const contradictions[] = {
      {"--receive-bytes-max 511MiB", "--receive-bytes-max (511MiB)", "--queue-bytes-max (256MiB)"},
      {"--queue-bytes-max 64MiB", "--payload-bytes-max (64MiB)", "--queue-bytes-max (64MiB)"},
      {"--payload-bytes-max 257MiB", "--payload-bytes-max (257MiB)", "--queue-bytes-max (256MiB)"},
      {"--require-backend cuda --backend cpu", "--require-backend cuda", "--backend cpu"},
      {"--bin-count-max 16777216", "--bin-count-max (16777216) takes 384MiB",
       "--queue-bytes-max (256MiB)"},
      {"--drain-delay 31s", "--drain-delay (31s)", "--drain-max (30s)"},
      {"--listen 0.0.0.0:0", "--listen 0.0.0.0:0", "--allow-plaintext"},
      {"--http-listen 0.0.0.0:0", "--http-listen 0.0.0.0:0", "--allow-plaintext"},
      {"--http-listen 127.evil.example:0", "--http-listen 127.evil", "--allow-plaintext"},
      {"--http-listen unix:/tmp/x", "--http-listen", "HOST:PORT"},
      {"--http-host a", "--http-host", "--http-listen"},
      {"--http-listen 127.0.0.1:2 --http-host a,b:80", "--http-host has 'b:80'", "without"},
      {"--http-listen 127.0.0.1:2 --http-allow-origin https://a,https://b/",
       "--http-allow-origin has 'https://b/'", "no path"},
  };
  for (const auto& c : contradictions) {
    EXPECT_THAT(ErrorOf(Words(c.arguments)), AllOf(HasSubstr(c.first), HasSubstr(c.second)));
  }
}

TEST(ParseConfig, LimitsThatJustAgreePass) {
  EXPECT_TRUE(Parse({"--receive-bytes-max", "512MiB"}).ok());
  EXPECT_TRUE(Parse({"--queue-bytes-max", "65MiB"}).ok());
  EXPECT_TRUE(Parse({"--queue-bytes-max", "384MiB", "--bin-count-max", "16777216"}).ok());
  EXPECT_TRUE(Parse({"--drain-delay", "30s"}).ok());
  EXPECT_TRUE(Parse(Words("--http-listen 127.0.0.1:2 --http-host a,[::2] --http-allow-origin "
                          "null,https://b,http://[::2]:3"))
                  .ok());
  EXPECT_TRUE(Parse({"--require-backend", "cuda"}).ok());
  EXPECT_TRUE(Parse(Words("--listen 0.0.0.0:0 --tls-cert a --tls-key b --http-listen 0.0.0.0:0 "
                          "--allow-plaintext"))
                  .ok());
}

TEST(PrintConfig, LoadsAgainAndPrintsTheSame) {
  std::vector<std::string> arguments = Words(
      "--print-config --listen [::1]:0 --lanes 3 --verify-fraction 0.125 --metrics-listen off "
      "--require-backend cuda --drain-max 90s --queue-bytes-max 300MiB --fault-injection lose:3 "
      "--port-file a\\b#c");
  arguments.insert(arguments.end(), {"--listen", "unix:/tmp/a b \"c\\.sock"});
  const auto printed = Parse(arguments);
  ASSERT_TRUE(printed.ok()) << printed.status();
  EXPECT_THAT(printed->text, HasSubstr("\n# Set by --lanes: 3\nlanes = 3\n"));
  EXPECT_THAT(printed->text, HasSubstr("\nqueue-bytes-max = \"300MiB\"\n"));

  const TemporaryFile file(printed->text);
  const auto loaded = Parse({"--config", file.path()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const Setting& setting : Settings()) {
    EXPECT_EQ(TextOf(setting, loaded->config), TextOf(setting, printed->config)) << setting.name;
  }
}

TEST(Help, NamesTheFlagsThatMatterAndHelpAllTheRest) {
  const auto help = Parse({"--help", "--nonsense"});
  const auto all = Parse({"--help-all"});
  ASSERT_TRUE(help.ok() && all.ok()) << help.status() << all.status();
  int listed = 0;
  for (const Setting& setting : Settings()) {
    listed += setting.listed == Listed::kUnlisted ? 0 : 1;
    const std::string flag = IsSwitch(setting) ? absl::StrCat("--[no-]", setting.name)
                                               : absl::StrCat("--", setting.name, " ");
    EXPECT_EQ(absl::StrContains(help->text, flag), setting.listed == Listed::kHelp) << flag;
    EXPECT_EQ(absl::StrContains(all->text, flag), setting.listed != Listed::kUnlisted) << flag;
  }
  EXPECT_LE(listed, 30) << "more than a person can use: make one a constant";
  EXPECT_THAT(help->text, HasSubstr("--queue-bytes-max BYTES"));
  for (const absl::string_view line : absl::StrSplit(all->text, '\n')) {
    EXPECT_LE(line.size(), 100u) << line;
  }
  EXPECT_EQ(Parse({"-h"})->text, help->text);
}

TEST(Version, SaysWhatWasBuilt) {
  const auto version = Parse({"--version"});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_THAT(version->text, HasSubstr("histogram-server " + GetBuildInfo().version));
  EXPECT_FALSE(GetBuildInfo().commit.empty());
}

TEST(Settings, NamesAndHeadingsAreUnique) {
  std::set<absl::string_view> names, headings;
  EXPECT_FALSE(Settings().front().group.empty());
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_TRUE(setting.group.empty() || headings.insert(setting.group).second) << setting.group;
  }
}

// Each setting reaches a member of its own: set alone, it changes its own text and no other's.
TEST(Settings, EachSettingHasItsOwnMember) {
  const Config defaults;
  for (const Setting& setting : Settings()) {
    Config config;
    for (const char* text : {"true", "false", "cpu", "cuda", "exit", "debug", "json", "127.0.0.1:9",
                             "1", "11s", "3ms", "1MiB", "more"}) {
      if (TextOf(setting, config) != TextOf(setting, defaults)) break;
      SetFromText(setting, text, "", config).IgnoreError();
    }
    for (const Setting& other : Settings()) {
      const bool same = TextOf(other, config) == TextOf(other, defaults);
      EXPECT_EQ(same, other.name != setting.name) << setting.name << " and " << other.name;
    }
  }
}

}  // namespace
}  // namespace histogram::server
