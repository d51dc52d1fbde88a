// The table of settings: name, place in Config, kind, limits and help of each flag. Flags,
// environment variables, file keys, --help, --print-config and the checks all read this one table.
//
// Immutable after the first call; thread-safe.
#ifndef HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
#define HISTOGRAM_SERVER_CONFIG_SETTINGS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"

namespace histogram::server {

// How a setting's text is read and shown.
enum class SettingKind : uint8_t {
  kBytes,      // uint32_t or uint64_t
  kTime,       // microseconds, uint32_t or uint64_t
  kCount,      // uint32_t or uint64_t
  kFraction,   // double
  kSwitch,     // bool: --name and --no-name
  kText,       // std::string
  kChoice,     // one of `choices`: std::string, BackendOptions::Choice or RequireCuda
  kAddress,    // HOST:PORT or "off", std::string
  kAddresses,  // repeatable, std::vector<std::string>
};

// A bool that is written as "none" or "cuda".
struct RequireCuda {
  bool* value;
};

// The member of a Config that a setting stands for.
using SettingRef = std::variant<uint64_t*, uint32_t*, double*, bool*, std::string*,
                                std::vector<std::string>*, BackendOptions::Choice*, RequireCuda>;

struct Setting {
  absl::string_view name;   // of the flag without dashes, and of the file's key
  absl::string_view group;  // heading in --help
  SettingKind kind;
  absl::string_view value_name;  // "BYTES"; empty for a switch
  absl::string_view help;        // without unit, limits and default, which are added from the rest
  SettingRef (*at)(Config&);
  double minimum = 0, maximum = 0;              // numbers: both inclusive
  std::vector<absl::string_view> choices = {};  // kChoice
  bool hidden = false;                          // not in --help
  bool allow_zero = false;                      // 0 is allowed below `minimum`: it switches it off
};

// In the order of --help; settings of a group stand together.
const std::vector<Setting>& Settings();
// nullptr if there is none of that name.
const Setting* FindSetting(absl::string_view name);
// "HISTSVC_QUEUE_BYTES_MAX"
std::string EnvironmentName(const Setting& setting);

// Sets one setting from text (one value, but for kAddresses). On an error, `config` is unchanged
// and the message is a sentence that starts with `source`: "--queue-bytes-max must be ...".
absl::Status SetFromText(const Setting& setting, const std::vector<std::string>& values,
                         absl::string_view source, Config& config);

// Whether the setting's value lies within its own limits; the message starts with `source`.
absl::Status CheckLimits(const Setting& setting, absl::string_view source, const Config& config);

// The value as text that SetFromText reads again, one element except for kAddresses.
std::vector<std::string> GetText(const Setting& setting, const Config& config);
// The value for people: "64 MiB", "3 s", "on", "127.0.0.1:50051".
std::string DisplayText(const Setting& setting, const Config& config);
// "1 to 64 MiB", "one of text, json"; empty where there is nothing to say.
std::string LimitsText(const Setting& setting);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
