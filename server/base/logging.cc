#include "server/base/logging.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace histogram::server {
namespace {

using Json = nlohmann::ordered_json;

struct LevelName {
  LogLevel level;
  std::string_view name;
  spdlog::level::level_enum spdlog_level;
};
constexpr std::array<LevelName, 6> kLevels = {{{LogLevel::kTrace, "trace", spdlog::level::trace},
                                               {LogLevel::kDebug, "debug", spdlog::level::debug},
                                               {LogLevel::kInfo, "info", spdlog::level::info},
                                               {LogLevel::kWarn, "warn", spdlog::level::warn},
                                               {LogLevel::kError, "error", spdlog::level::err},
                                               {LogLevel::kOff, "off", spdlog::level::off}}};

const LevelName& Named(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

// The logger and its format. Never destroyed, so that threads may log until the very end.
struct State {
  State() : logger("server", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger.set_pattern("%v");  // FormatLogLine writes the whole line
    logger.set_level(spdlog::level::info);
    logger.flush_on(spdlog::level::trace);
    // A full disk or a closed pipe behind standard error must not end the service.
    logger.set_error_handler([](const std::string&) {});
  }
  spdlog::logger logger;
  std::atomic<LogFormat> format{LogFormat::kText};
};

State& GetState() {
  static State* const state = new State;
  return *state;
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
  line += Named(level).name;
  line.append(6 - Named(level).name.size(), ' ');
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
  line["level"] = Named(level).name;
  line["event"] = Cut(event);
  for (const LogField& field : fields) {
    const auto* text = std::get_if<std::string>(&field.value());
    if (text == nullptr || !text->empty()) line[field.key()] = ToJson(field.value());
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void InitLogging(LogLevel from, LogFormat format) {
  State& state = GetState();
  state.format.store(format, std::memory_order_relaxed);
  state.logger.set_level(Named(from).spdlog_level);
}

bool LogEnabled(LogLevel level) { return GetState().logger.should_log(Named(level).spdlog_level); }

void Log(LogLevel level, std::string_view event, absl::Span<const LogField> fields) {
  if (!LogEnabled(level)) return;
  try {
    State& state = GetState();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t time_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    const std::string line =
        FormatLogLine(state.format.load(std::memory_order_relaxed), time_us, level, event, fields);
    state.logger.log(Named(level).spdlog_level, spdlog::string_view_t(line.data(), line.size()));
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
