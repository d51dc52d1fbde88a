#include "server/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "forms/nearest.h"
#include "server/base/read_file.h"
#include "server/config/build.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

constexpr absl::string_view kPrefix = "HISTSVC_";
constexpr absl::string_view kConfigVariable = "HISTSVC_CONFIG";
constexpr absl::string_view kClientVariable = "HISTSVC_SERVER";  // the client's --server

// The listed setting that `name` most likely means, spelled as in a file; empty when none is near.
std::string NearestSetting(absl::string_view name, std::vector<std::string> others) {
  for (const Setting& setting : Settings()) {
    if (setting.listed != Listed::kUnlisted) others.emplace_back(setting.name);
  }
  return Nearest(absl::StrReplaceAll(name, {{"_", "-"}}), others);
}

// A setting as one source gives it.
struct Assignment {
  const Setting* setting;
  std::string value;
  std::string source;  // "--listen", "HISTSVC_LISTEN", "server.toml:3: listen"
};

// What the command line says, before any value is interpreted.
struct CommandLine {
  std::optional<std::string> config_file;
  std::vector<Assignment> assignments;
};

absl::Status UnknownFlag(absl::string_view flag) {
  std::vector<std::string> others = {"help", "help-all", "version", "print-config", "config"};
  for (const Setting& setting : Settings()) {
    if (IsSwitch(setting)) others.push_back(absl::StrCat("no-", setting.name));
  }
  absl::string_view name = flag;
  while (absl::ConsumePrefix(&name, "-")) continue;
  const std::string nearest = NearestSetting(name, others);
  return Invalid("unknown option ", flag,
                 nearest.empty() ? "; --help-all lists the options" : DidYouMean("--" + nearest));
}

// The setting of a flag, and what a switch means: "true" of --tune, "false" of --no-tune.
std::pair<const Setting*, absl::string_view> FindFlag(absl::string_view flag) {
  if (!absl::ConsumePrefix(&flag, "--")) return {};
  const Setting* setting = FindSetting(flag);
  if (setting != nullptr) return {setting, IsSwitch(*setting) ? "true" : ""};
  if (absl::ConsumePrefix(&flag, "no-")) setting = FindSetting(flag);
  if (setting == nullptr || !IsSwitch(*setting)) return {};
  return {setting, "false"};
}

// Adds a value to a layer. Only lists take several.
absl::Status AddValue(const Setting& setting, std::string value, std::string source,
                      std::vector<Assignment>& layer) {
  const auto same = absl::c_find_if(layer, [&](const auto& a) { return a.setting == &setting; });
  if (same == layer.end()) {
    layer.push_back({&setting, std::move(value), std::move(source)});
  } else if (IsList(setting)) {
    absl::StrAppend(&same->value, ",", value);
  } else {
    return Invalid(source, " is given twice; give it once");
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<absl::string_view>& arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--print-config") continue;
    const absl::string_view flag = arguments[i].substr(0, arguments[i].find('='));
    if (flag.size() < 2 || flag.front() != '-' || flag == "--") {
      return Invalid("unexpected argument '", arguments[i],
                     "'; every setting is a flag, see --help");
    }
    const auto [setting, implied] = FindFlag(flag);
    if (setting == nullptr && flag != "--config") return UnknownFlag(flag);
    std::string value(implied);
    if (flag.size() < arguments[i].size()) {
      if (value == "false") return Invalid(flag, " takes no value");
      value = std::string(arguments[i].substr(flag.size() + 1));
    } else if (value.empty()) {
      if (i + 1 == arguments.size() || absl::StartsWith(arguments[i + 1], "--")) {
        return Invalid(flag, " needs a value: ", flag, " ",
                       setting == nullptr ? "FILE" : PlaceholderOf(*setting));
      }
      value = std::string(arguments[++i]);
    }
    // A script whose variable is not set names an empty file. Without its file the server would be
    // open to more than it was meant for.
    if (value.empty() && (setting == nullptr || setting->placeholder == "FILE")) {
      return Invalid(flag, " must name a file; leave it out to have none");
    }
    if (setting != nullptr) {
      absl::Status status =
          AddValue(*setting, std::move(value), absl::StrCat("--", setting->name), line.assignments);
      if (!status.ok()) return status;
    } else if (line.config_file) {
      return Invalid("--config is given twice; there is one config file");
    } else {
      line.config_file = std::move(value);
    }
  }
  return line;
}

// Reads a value of the config file: as a variable has it, or a string in double quotes.
absl::Status ReadValue(absl::string_view text, std::string& value) {
  if (text.empty()) return Invalid("a value is missing; write \"\" for an empty text");
  value = std::string(text);
  if (!absl::ConsumePrefix(&text, "\"")) return absl::OkStatus();
  if (!absl::ConsumeSuffix(&text, "\"") || !absl::CUnescape(text, &value)) {
    return Invalid(
        "a string must end with its closing quote, and may have the escapes \\\\, \\\", "
        "\\n and \\t");
  }
  return absl::OkStatus();
}

// A setting a line, as KEY = VALUE. Lines that begin with # are comments.
absl::StatusOr<std::vector<Assignment>> FileLayer(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  std::vector<Assignment> layer;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::string place = absl::StrCat(path, ":", ++number, ": ");
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) return Invalid(place, "expected KEY = VALUE");
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    const Setting* setting = FindSetting(key);
    if (setting == nullptr) {
      return Invalid(place, "unknown setting ", key, DidYouMean(NearestSetting(key, {})));
    }
    std::string value;
    absl::Status status = ReadValue(absl::StripAsciiWhitespace(line.substr(equals + 1)), value);
    if (!status.ok()) return Invalid(place, status.message());
    status = AddValue(*setting, std::move(value), absl::StrCat(place, key), layer);
    if (!status.ok()) return status;
  }
  return layer;
}

// An empty variable counts as not set: Compose and its like leave such variables behind.
std::vector<Assignment> EnvironmentLayer(const Variables& variables,
                                         std::vector<std::string>& warnings) {
  std::vector<Assignment> layer;
  for (const auto& [variable, value] : variables) {
    if (!absl::StartsWith(variable, kPrefix) || variable == kConfigVariable ||
        variable == kClientVariable) {
      continue;
    }
    const std::string name =
        absl::AsciiStrToLower(absl::StrReplaceAll(variable.substr(kPrefix.size()), {{"_", "-"}}));
    const Setting* setting = FindSetting(name);
    if (setting == nullptr || EnvironmentName(name) != variable) {
      const std::string nearest = NearestSetting(name, {"config"});
      warnings.push_back(absl::StrCat("unknown environment variable ", variable, " is ignored",
                                      DidYouMean(nearest.empty() ? "" : EnvironmentName(nearest))));
    } else if (!value.empty()) {
      layer.push_back({setting, value, variable});
    }
  }
  return layer;
}

// Applies a layer over the weaker ones.
absl::Status Apply(const std::vector<Assignment>& layer, ParsedConfig& parsed) {
  for (const auto& [setting, value, source] : layer) {
    absl::Status status = SetFromText(*setting, value, source, parsed.config);
    if (!status.ok()) return status;
    parsed.origins[std::string(setting->name)] = source;
  }
  return absl::OkStatus();
}

// --- Settings that are fine one by one and contradict each other.

// Whether two settings contradict each other, and the sentence that names both.
using Contradiction = std::pair<bool, std::string>;

std::vector<Contradiction> Contradictions(const Config& config) {
  constexpr uint64_t kBytesOfABin = 3 * sizeof(uint64_t);         // without edges and statistics
  constexpr uint64_t kReplyBytes = 256 * sizeof(uint64_t) + 512;  // of the default spec
  const TransportConfig& t = config.transport;
  const uint64_t queue = config.batching.queue_bytes_max;
  // "--queue-bytes-max (256MiB)"
  const auto named = [&](absl::string_view name) {
    return absl::StrCat("--", name, " (", DisplayText(*FindSetting(name), config), ")");
  };
  return {
      {t.payload_bytes_max + kReplyBytes > queue,
       absl::StrCat(named("payload-bytes-max"), " and a reply are larger than ",
                    named("queue-bytes-max"), "; the queue has no room for such a payload")},
      {t.bin_count_max > TransportConfig().bin_count_max && kBytesOfABin * t.bin_count_max > queue,
       absl::StrCat(named("bin-count-max"), " takes ", FormatBytes(kBytesOfABin * t.bin_count_max),
                    " of counters, plan and reply, more than ", named("queue-bytes-max"),
                    "; the queue has no room for such a request")},
      {queue > t.receive_bytes_max / 2,
       absl::StrCat(named("receive-bytes-max"), " must be at least twice ",
                    named("queue-bytes-max"),
                    ", because a message is in memory before the queue can refuse it")},
      {t.drain_delay_us > t.drain_us_max,
       absl::StrCat(named("drain-delay"), " is longer than ", named("drain-max"),
                    ", which bounds the whole drain")},
      {t.tls_cert.empty() != t.tls_key.empty(),
       "--tls-cert and --tls-key belong together: give both or neither"},
      {!t.tls_client_ca.empty() && t.tls_cert.empty(),
       "--tls-client-ca needs --tls-cert and --tls-key"},
      {!t.tls_client_ca.empty() && !t.http_listen.empty(),
       "--tls-client-ca and --http-listen contradict each other: over HTTP clients show no "
       "certificate"},
      {t.http_listen.empty() && !(t.http_hosts.empty() && t.http_allow_origins.empty()),
       "--http-host and --http-allow-origin need --http-listen"},
      {config.require_cuda && config.backend.choice == BackendOptions::Choice::kCpu,
       "--require-backend cuda and --backend cpu contradict each other: the server could never be "
       "ready"},
  };
}

// That no listener is open to other machines by oversight.
absl::Status CheckAddresses(const TransportConfig& t) {
  const auto is_local = [](const std::string& text) { return ParseAddress(text)->IsLocal(); };
  for (const std::string& text : t.listen) {
    if (!t.tls_cert.empty() || t.allow_plaintext || is_local(text)) continue;
    return Invalid(
        "--listen ", text,
        " can be reached from other machines, and would be without TLS; give --tls-cert and "
        "--tls-key, or --allow-plaintext if something in front takes care of that");
  }
  if (t.http_listen.empty() || is_local(t.http_listen)) return absl::OkStatus();
  if (!t.token_file.empty()) {
    return Invalid("--http-listen ", t.http_listen,
                   " can be reached from other machines, and --token-file's tokens would cross "
                   "the network without TLS; listen on 127.0.0.1 behind a proxy that ends TLS");
  }
  if (t.allow_plaintext) return absl::OkStatus();
  return Invalid("--http-listen ", t.http_listen,
                 " can be reached from other machines, and has no TLS; give --allow-plaintext if "
                 "something in front takes care of that");
}

// That the HTTP port's names and sites are spelled as Host and Origin spell them: others would
// match no request.
absl::Status CheckSites(const TransportConfig& t) {
  const auto parts = [](const std::string& list) -> std::vector<std::string> {
    return absl::StrSplit(list, absl::ByAnyChar(", \t"), absl::SkipEmpty());
  };
  for (const std::string& name : parts(t.http_hosts)) {
    if (ParseAddress(absl::StrCat(name, ":0")).ok()) continue;
    return Invalid("--http-host has '", name,
                   "'; write a name without scheme and port, such as example.org");
  }
  for (const std::string& site : parts(t.http_allow_origins)) {
    const std::pair<std::string, std::string> origin =
        absl::StrSplit(site, absl::MaxSplits("://", 1));
    const std::string& host = origin.second;
    if (site == "null" || ParseAddress(host).ok() || ParseAddress(host + ":0").ok()) continue;
    return Invalid("--http-allow-origin has '", site,
                   "'; write scheme, host and port where it has one, and no path: "
                   "https://example.org or http://example.org:3000");
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const Config& config) {
  for (auto& [holds, message] : Contradictions(config)) {
    if (holds) return Invalid(message);
  }
  if (absl::Status status = CheckSites(config.transport); !status.ok()) return status;
  return CheckAddresses(config.transport);
}

}  // namespace

Variables ProcessVariables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    variables.push_back(absl::StrSplit(*entry, absl::MaxSplits('=', 1)));
  }
  return variables;
}

const BuildInfo& GetBuildInfo() {
  static const BuildInfo info = {HISTOGRAM_BUILD_VERSION, HISTOGRAM_BUILD_COMMIT,
                                 HISTOGRAM_BUILD_COMPILER, HISTOGRAM_BUILD_TYPE};
  return info;
}

absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const Variables& environment) {
  const std::vector<absl::string_view> arguments(argv + std::min(argc, 1), argv + argc);
  const auto has = [&](absl::string_view flag) { return absl::c_linear_search(arguments, flag); };
  if (has("--help") || has("-h")) return ParsedConfig{.text = HelpText(/*all=*/false)};
  if (has("--help-all")) return ParsedConfig{.text = HelpText(/*all=*/true)};
  if (has("--version") || has("-V")) return ParsedConfig{.text = VersionText()};

  absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) return line.status();
  for (const auto& [name, value] : environment) {
    if (name == kConfigVariable && !line->config_file && !value.empty()) line->config_file = value;
  }
  ParsedConfig parsed;
  absl::StatusOr<std::vector<Assignment>> file = std::vector<Assignment>();
  if (line->config_file) file = FileLayer(*line->config_file);
  absl::Status status = file.status();
  if (status.ok()) status = Apply(*file, parsed);
  if (status.ok()) status = Apply(EnvironmentLayer(environment, parsed.warnings), parsed);
  if (status.ok()) status = Apply(line->assignments, parsed);
  if (status.ok()) status = CheckConfig(parsed.config);
  if (!status.ok()) return status;
  const std::string& metrics = parsed.config.metrics_listen;
  if (!metrics.empty() && !ParseAddress(metrics)->IsLocal()) {
    parsed.warnings.push_back(absl::StrCat("--metrics-listen ", metrics,
                                           " can be reached from other machines, without TLS and ",
                                           "tokens; let only your monitoring reach it"));
  }
  if (has("--print-config")) parsed.text = PrintConfigText(parsed);
  return parsed;
}

}  // namespace histogram::server
