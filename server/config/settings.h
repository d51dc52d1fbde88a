// The table of settings. Flags, environment variables, file keys, --help, --print-config and the
// checks all read this one table.
//
// Immutable after the first call; thread-safe.
#ifndef HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
#define HISTOGRAM_SERVER_CONFIG_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"

namespace histogram::server {

enum class SettingKind : uint8_t {
  kBytes,     // "64MiB"
  kDuration,  // "30s"
  kCount,     // "64"
  kSwitch,    // --name and --no-name
  kText,      // a word, a file's name, an address, a fraction
  kList,      // several, separated by commas; its flag can be repeated
};

// How a setting's text is read into a Config, and read back.
struct SettingValue {
  SettingKind kind = SettingKind::kText;
  std::string placeholder;  // "BYTES"; empty for a switch
  std::string limits;       // "1 to 65536", "one of text, json"; empty where there are none
  // INVALID_ARGUMENT with the rest of a sentence that starts with the setting's name, for what
  // cannot be read and for what is outside the limits; the Config is unchanged then.
  std::function<absl::Status(const std::string&, Config&)> set;
  std::function<std::string(const Config&)> get;  // as `set` reads it
  // In bytes, seconds or pieces; absent for what has no limits as a number.
  std::function<double(const Config&)> number;
};

// Where a setting is shown.
enum class Listed : uint8_t {
  kHelp,     // --help and --help-all
  kHelpAll,  // --help-all
  kNowhere,  // for tests
};

struct Setting {
  absl::string_view name;  // of the flag without dashes, and of the file's key
  // The name in the version before, which still works; a bare number under it is microseconds.
  absl::string_view old_name = {};
  Listed listed = Listed::kHelp;
  SettingValue value;
  absl::string_view help;        // without limits and default, which come from `value`
  absl::string_view group = {};  // heading in --help
};

// In the order of --help; settings of a group stand together.
const std::vector<Setting>& Settings();
// By name or by old name; nullptr if there is none.
const Setting* FindSetting(absl::string_view name);
// "HISTSVC_QUEUE_BYTES_MAX"
std::string EnvironmentName(absl::string_view name);

// Sets one setting. On an error `config` is unchanged, and the message is a sentence that starts
// with `source`: "--queue-bytes-max must be ...".
absl::Status SetFromText(const Setting& setting, const std::string& text, absl::string_view source,
                         Config& config);

// The value for people: "64MiB", "on", "none", "127.0.0.1:50051,unix:/run/h.sock".
std::string DisplayText(const Setting& setting, const Config& config);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
