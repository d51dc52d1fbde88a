#include "server/base/logging.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

namespace histogram::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

std::string_view NameOf(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

int64_t NowUs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// Standard error, which may be a pipe that nobody reads: a line for which there is no room is lost
// and counted. Thread-safe.
class Output {
 public:
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

  // `line` without its end.
  void Write(std::string line) {
    line += '\n';
    const std::lock_guard<std::mutex> lock(mutex_);
    if (told_ != lost()) Tell();
    if (!WriteNow(line)) lost_.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::atomic<LogFormat> format{LogFormat::kText};

 private:
  // These are called under the lock.
  void Tell() {
    const uint64_t lost_now = lost();
    const LogField lost_lines("lines", lost_now - told_);
    if (WriteNow(FormatLogLine(format, NowUs(), LogLevel::kWarn,
                               "log lines are lost: nobody reads them", {lost_lines}) +
                 '\n')) {
      told_ = lost_now;
    }
  }

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
  std::mutex mutex_;   // guards the two below, and the order of lines
  bool cut_ = false;   // the last line lacks its end
  uint64_t told_ = 0;  // of those that are lost
};

// Never destroyed, so that threads may log until the very end.
Output& Out() {
  static Output* const output = new Output;
  return *output;
}

std::string FormatTime(int64_t time_us) {
  const std::time_t seconds = static_cast<std::time_t>(time_us / 1000000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
                                   utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                                   utc.tm_min, utc.tm_sec, static_cast<int>(time_us % 1000000));
  return {text.data(), static_cast<size_t>(std::max(0, length))};
}

// Cuts at a character's start, so that a valid text stays valid.
std::string Cut(std::string_view text) {
  if (text.size() <= kLogValueBytesMax) return std::string(text);
  size_t end = kLogValueBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string Quote(std::string_view text) {
  return Json(Cut(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ToJson(const LogField::Value& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) return Cut(v);
        if constexpr (std::is_same_v<T, double>) {
          // JSON has no infinity; as text it is still there to be read.
          if (!std::isfinite(v)) return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
        }
        return v;
      },
      value);
}

bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

std::string FormatText(int64_t time_us, LogLevel level, std::string_view event,
                       absl::Span<const LogField> fields) {
  std::string line = FormatTime(time_us);
  line += ' ';
  line += NameOf(level);
  line.append(6 - NameOf(level).size(), ' ');
  const std::string quoted = Quote(event);
  line.append(quoted, 1, quoted.size() - 2);  // escaped, without the quotes
  for (const LogField& field : fields) {
    const auto* text = std::get_if<std::string>(&field.value());
    if (text != nullptr && text->empty()) continue;
    line += ' ';
    line += field.key();
    line += '=';
    if (text == nullptr) {
      line += ToJson(field.value()).dump();
    } else {
      line += IsPlain(*text) ? Cut(*text) : Quote(*text);
    }
  }
  return line;
}

std::string FormatJson(int64_t time_us, LogLevel level, std::string_view event,
                       absl::Span<const LogField> fields) {
  Json line;
  line["time"] = FormatTime(time_us);
  line["level"] = NameOf(level);
  line["event"] = Cut(event);
  for (const LogField& field : fields) {
    const auto* text = std::get_if<std::string>(&field.value());
    if (text == nullptr || !text->empty()) line[field.key()] = ToJson(field.value());
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void InitLogging(LogLevel from, LogFormat format) {
  Out().level = from;
  Out().format = format;
}

bool LogEnabled(LogLevel level) { return level >= Out().level; }

uint64_t LogLinesLost() { return Out().lost(); }

void Log(LogLevel level, std::string_view event, absl::Span<const LogField> fields) {
  if (!LogEnabled(level)) return;
  try {
    Out().Write(FormatLogLine(Out().format, NowUs(), level, event, fields));
  } catch (const std::exception&) {
    // Out of memory while logging: the event is lost, the service goes on.
  }
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  Log(level, event, absl::Span<const LogField>(fields.begin(), fields.size()));
}

std::string FormatLogLine(LogFormat format, int64_t time_us, LogLevel level, std::string_view event,
                          absl::Span<const LogField> fields) {
  return format == LogFormat::kJson ? FormatJson(time_us, level, event, fields)
                                    : FormatText(time_us, level, event, fields);
}

}  // namespace histogram::server
