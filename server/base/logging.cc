#include "server/base/logging.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace histogram::server {
namespace {

struct LevelName {
  std::string_view name;
  spdlog::level::level_enum spdlog_level;
};
constexpr std::array<LevelName, 5> kLevels = {{{"debug", spdlog::level::debug},
                                               {"info", spdlog::level::info},
                                               {"warn", spdlog::level::warn},
                                               {"error", spdlog::level::err},
                                               {"off", spdlog::level::off}}};

const LevelName& Named(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

// Standard error, which may be a pipe that nobody reads: a line for which there is no room is lost
// and counted. spdlog's own sinks would wait.
class NonBlockingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  // Called by one thread at a time. FormatLogLine has written the whole line.
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string line = std::string(message.payload.data(), message.payload.size()) + '\n';
    if (!WriteNow(line)) lost_.fetch_add(1, std::memory_order_relaxed);
  }
  void flush_() override {}

  // Waits for nobody: what poll(2) finds writable takes a piece of PIPE_BUF bytes at once.
  bool WriteNow(std::string_view text) {
    if (cut_ && !WritePiece("\n")) return false;
    cut_ = false;
    for (size_t at = 0; at < text.size(); at += PIPE_BUF) {
      if (!WritePiece(text.substr(at, PIPE_BUF))) {
        cut_ = at > 0;
        return false;
      }
    }
    return true;
  }
  static bool WritePiece(std::string_view piece) {
    pollfd out{STDERR_FILENO, POLLOUT, 0};
    if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) return false;
    return write(STDERR_FILENO, piece.data(), piece.size()) == static_cast<ssize_t>(piece.size());
  }

  std::atomic<uint64_t> lost_{0};
  bool cut_ = false;  // the last line lacks its end
};

// Never destroyed, so that threads may log until the very end.
struct State {
  State() : logger("server", sink) {
    logger.set_level(spdlog::level::info);
    // A full disk or a closed pipe behind standard error must not end the service.
    logger.set_error_handler([](const std::string&) {});
  }
  std::shared_ptr<NonBlockingSink> sink = std::make_shared<NonBlockingSink>();
  spdlog::logger logger;
  std::atomic<LogFormat> format{LogFormat::kText};
};

State& GetState() {
  static State* const state = new State;
  return *state;
}

// Cuts at a character's start, so that a valid text stays valid.
std::string Cut(std::string_view text) {
  if (text.size() <= kLogValueBytesMax) return std::string(text);
  size_t end = kLogValueBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string Quote(std::string_view text) {
  return nlohmann::json(Cut(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

}  // namespace

void InitLogging(LogLevel from, LogFormat format) {
  State& state = GetState();
  state.format.store(format, std::memory_order_relaxed);
  state.logger.set_level(Named(from).spdlog_level);
}

bool LogEnabled(LogLevel level) { return GetState().logger.should_log(Named(level).spdlog_level); }

uint64_t LogLinesLost() { return GetState().sink->lost(); }

void Log(LogLevel level, std::string_view event, absl::Span<const LogField> fields) {
  if (!LogEnabled(level)) return;
  try {
    State& state = GetState();
    const std::string line = FormatLogLine(state.format.load(std::memory_order_relaxed),
                                           absl::ToUnixMicros(absl::Now()), level, event, fields);
    state.logger.log(Named(level).spdlog_level, spdlog::string_view_t(line.data(), line.size()));
  } catch (const std::exception&) {
    // Out of memory while logging: the event is lost, the service goes on.
  }
}

void LogThrottle::Log(TimeNs now, LogLevel level, std::string_view event,
                      std::vector<LogField> fields) {
  TimeNs next = next_.load(std::memory_order_relaxed);
  if (now < next || !next_.compare_exchange_strong(next, now + period_)) {
    held_back_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t suppressed = held_back_.exchange(0, std::memory_order_relaxed);
  if (suppressed > 0) fields.emplace_back("suppressed", suppressed);
  server::Log(level, event, fields);
}

std::string FormatLogLine(LogFormat format, int64_t time_us, LogLevel level, std::string_view event,
                          absl::Span<const LogField> fields) {
  const bool json = format == LogFormat::kJson;
  const std::string_view name = Named(level).name;
  std::string line =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(time_us), absl::UTCTimeZone());
  const std::string quoted = Quote(event);
  if (json) {
    line = R"({"time":")" + line + R"(","level":")";
    line.append(name) += R"(","event":)" + quoted;
  } else {
    line.append(1, ' ').append(name).append(6 - name.size(), ' ');
    line.append(quoted, 1, quoted.size() - 2);  // escaped, without the quotes
  }
  for (const LogField& field : fields) {
    if (field.value.empty()) continue;
    const bool quotes = field.is_text && (json || !IsPlain(field.value));
    line += json ? ",\"" + field.key + "\":" : ' ' + field.key + '=';
    line += quotes ? Quote(field.value) : Cut(field.value);
  }
  return json ? line + '}' : line;
}

}  // namespace histogram::server
