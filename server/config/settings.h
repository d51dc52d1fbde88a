// The table of settings. Flags, environment variables, file keys, --help, --print-config and the
// checks all read this one table. And the values of settings as text: parsed strictly, formatted
// for people. Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
#define HISTOGRAM_SERVER_CONFIG_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/base/address.h"
#include "server/config/config.h"

namespace histogram::server {

// How a text is read where the member's type does not say it.
enum class ReadAs : uint8_t {
  kPlain,
  kBytes,     // "64MiB"
  kDuration,  // "30s"; the member is in microseconds
  kAddress,   // HOST:PORT or off, which is an empty member
};

// Where a setting is shown.
enum class Listed : uint8_t {
  kHelp,      // --help and --help-all
  kHelpAll,   // --help-all
  kUnlisted,  // for tests, and batch-max
};

// The member of a Config that holds a setting:
//   bool*         a switch, --name and --no-name
//   uint8_t*      the place of its word in `choices`
//   uint32_t*     a whole number, as uint64_t*
//   double*       a fraction, 0 to 1
//   vector*       HOST:PORT, [V6]:PORT or unix:PATH, separated by commas; its flag can be repeated
using Member = std::variant<bool*, uint8_t*, uint32_t*, uint64_t*, double*, std::string*,
                            std::vector<std::string>*>;

// Both inclusive.
struct Range {
  uint64_t min = 0, max = UINT64_MAX;
};

struct Setting {
  absl::string_view group = {};  // the heading in --help that starts with this setting
  absl::string_view name;        // of the flag without dashes, and of the file's key
  Listed listed = Listed::kHelp;
  ReadAs as = ReadAs::kPlain;
  Range limits = {};                   // of whole numbers
  absl::string_view choices = {};      // "text, json"
  absl::string_view placeholder = {};  // "FILE", where it does not follow from the rest
  Member (*member)(Config&);
  absl::string_view help;  // without limits and default
};

// In the order of --help.
absl::Span<const Setting> Settings();
// By name; nullptr if there is none.
const Setting* FindSetting(absl::string_view name);
// "HISTSVC_QUEUE_BYTES_MAX"
std::string EnvironmentName(absl::string_view name);

// Sets one setting. On an error `config` is unchanged, and the message is a sentence that starts
// with `source`: "--queue-bytes-max must be ...".
absl::Status SetFromText(const Setting& setting, const std::string& text, absl::string_view source,
                         Config& config);

// The value as SetFromText reads it: "64MiB", "true", "127.0.0.1:50051,unix:/run/h.sock".
std::string TextOf(const Setting& setting, const Config& config);
// The value for people: "64MiB", "on", "none".
std::string DisplayText(const Setting& setting, const Config& config);
// In bytes, seconds or pieces; absent for other kinds.
std::optional<double> NumberOf(const Setting& setting, const Config& config);

bool IsSwitch(const Setting& setting);
bool IsList(const Setting& setting);
// "BYTES", "FILE"; empty for a switch.
absl::string_view PlaceholderOf(const Setting& setting);
// "1 to 65536", "one of text, json"; empty where there are none.
std::string LimitsOf(const Setting& setting);

// Each parser answers INVALID_ARGUMENT with the rest of a sentence that starts with the setting's
// name: "must be a number of bytes such as 65536, 64KiB or 1GiB, not '12 parsecs'".

// Digits alone, or with B, KiB, MiB, GiB or TiB (any case). 64 bits.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// Microseconds: decimal numbers with us, ms, s, m (min) or h, such as 1.5s or 1h30m; 0 needs no
// unit.
absl::StatusOr<uint64_t> ParseDuration(absl::string_view text);

// These write what the parsers read.
std::string FormatBytes(uint64_t bytes);            // "64MiB", "1000B"
std::string FormatDuration(uint64_t microseconds);  // "3s", "1.5ms", "30m", "0"

// What --help prints: the settings that matter to most, or all of them.
std::string HelpText(bool all);
std::string VersionText();
// The configuration in the config file's own format, loadable with --config.
std::string PrintConfigText(const ParsedConfig& parsed);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_SETTINGS_H_
