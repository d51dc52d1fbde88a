// The server's log: one line an event on standard error, as text or as a JSON object.
//
//   Log(LogLevel::kInfo, "listening", {{"address", address}, {"port", port}});
//
//   2026-01-31T12:00:00.123456Z info  listening address=127.0.0.1:50051 port=50051
//   {"time":"2026-01-31T12:00:00.123456Z","level":"info","event":"listening","address":...}
//
// Times are UTC (RFC 3339, microseconds). A field with an empty text is left out. Values are
// escaped and cut to kLogValueBytesMax, so that an event is one line whatever it carries; payload
// bytes are never logged. All functions are thread-safe.
#ifndef HISTOGRAM_SERVER_BASE_LOGGING_H_
#define HISTOGRAM_SERVER_BASE_LOGGING_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "server/base/clock.h"

namespace histogram::server {

inline constexpr size_t kLogValueBytesMax = 2048;

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : uint8_t { kText, kJson };

// One key and its value. Keys are lower case with underscores and carry their unit ("duration_us").
struct LogField {
  LogField(std::string_view its_key, std::string_view text)
      : key(its_key), value(text), is_text(true) {}
  template <std::integral T>
  LogField(std::string_view its_key, T number) : key(its_key), value(std::to_string(number)) {
    if constexpr (std::is_same_v<T, bool>) value = number ? "true" : "false";
  }

  std::string key, value;
  bool is_text = false;  // else a number or true or false, which JSON does not quote
};

// Applies level and format to everything that is logged from now on; before it, text from info on.
void InitLogging(LogLevel from, LogFormat format);

// Whether an event of this level would be written.
// REQUIRES: a level other than kOff, here and below.
bool LogEnabled(LogLevel level);

// Writes one event. It neither throws nor waits: a line that standard error does not take at once,
// a pipe that nobody reads for example, is lost, and counted.
void Log(LogLevel level, std::string_view event, absl::Span<const LogField> fields = {});

// Logs one event a period and counts those that it holds back, without a lock. Thread-safe.
class LogThrottle {
 public:
  static constexpr TimeNs kPeriod = 1000000000;
  // A hundred a second: a client that only errs must not fill the disk.
  static constexpr TimeNs kShortPeriod = 10000000;
  explicit LogThrottle(TimeNs period = kPeriod) : period_(period) {}
  // Logs the event if it is time, with the field `suppressed` where others were held back before
  // it.
  void Log(TimeNs now, LogLevel level, std::string_view event, std::vector<LogField> fields);

 private:
  const TimeNs period_;
  std::atomic<TimeNs> next_{INT64_MIN};
  std::atomic<uint64_t> held_back_{0};
};

// How many lines were lost so far.
uint64_t LogLinesLost();

// The line without its line end, as Log writes it; time in microseconds since 1970.
std::string FormatLogLine(LogFormat format, int64_t time_us, LogLevel level, std::string_view event,
                          absl::Span<const LogField> fields);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_LOGGING_H_
