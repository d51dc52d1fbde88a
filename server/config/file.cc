// The config file: a flat subset of TOML that also reads plain INI.
//
//   # comment                      ; comment
//   queue-bytes-max = "256MiB"     # strings in "..." or '...', or bare words and numbers
//   listen = ["127.0.0.1:50051", "unix:/run/histogram.sock"]
//
// A setting stands on one line. Anything else (sections, nested values, a key given twice) is an
// error with its line. No state.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/config/settings.h"

namespace histogram::server {
namespace {

bool IsComment(absl::string_view text) {
  return absl::StartsWith(text, "#") || absl::StartsWith(text, ";");
}

// Whether `mark` comes next; moves over it.
bool Take(absl::string_view mark, absl::string_view& rest) {
  rest = absl::StripLeadingAsciiWhitespace(rest);
  return absl::ConsumePrefix(&rest, mark);
}

// Moves the value at the front of `rest` to the entry. A bare one ends before one of `ends`.
absl::Status TakeValue(absl::string_view ends, absl::string_view& rest, FileEntry& entry) {
  rest = absl::StripLeadingAsciiWhitespace(rest);
  const char quote = rest.empty() ? '\0' : rest.front();
  std::string value;
  if (quote != '"' && quote != '\'') {
    const size_t end = std::min(rest.find_first_of(ends), rest.size());
    value = std::string(absl::StripTrailingAsciiWhitespace(rest.substr(0, end)));
    rest.remove_prefix(end);
    if (value.empty()) return Invalid("a value is missing; write \"\" for an empty text");
  } else {
    size_t end = 1;
    while (end < rest.size() && rest[end] != quote)
      end += quote == '"' && rest[end] == '\\' ? 2 : 1;
    if (end >= rest.size()) return Invalid("a string lacks its closing quote");
    value = std::string(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    if (quote == '"' && !absl::CUnescape(std::string(value), &value)) {
      return Invalid("unknown escape in a string; use \\\\, \\\", \\n or \\t");
    }
  }
  entry.values.push_back(std::move(value));
  return absl::OkStatus();
}

// Reads the text behind KEY =.
absl::Status ReadValues(absl::string_view rest, FileEntry& entry) {
  entry.is_array = Take("[", rest);
  absl::Status status;
  if (!entry.is_array) status = TakeValue("#;\"'[", rest, entry);
  while (status.ok() && entry.is_array && !Take("]", rest)) {
    status = TakeValue("#;\"'[,]", rest, entry);
    if (status.ok() && !Take(",", rest) && !absl::StartsWith(rest, "]")) {
      status = Invalid("a list lacks a comma or its closing ']'; it stands on one line");
    }
  }
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (!status.ok() || rest.empty() || IsComment(rest)) return status;
  return Invalid("extra text after the value of ", entry.key);
}

absl::Status ReadLine(absl::string_view line, FileEntry& entry) {
  if (absl::StartsWith(line, "[")) {
    return Invalid("sections are not used; write every setting at the top level, as KEY = VALUE");
  }
  const size_t equals = line.find('=');
  entry.key = std::string(absl::StripAsciiWhitespace(line.substr(0, equals)));
  const bool plain = absl::c_all_of(entry.key, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (equals == absl::string_view::npos || entry.key.empty() || !plain) {
    return Invalid("expected KEY = VALUE");
  }
  return ReadValues(line.substr(equals + 1), entry);
}

}  // namespace

absl::StatusOr<std::vector<FileEntry>> ParseConfigFile(absl::string_view text,
                                                       absl::string_view origin) {
  std::vector<FileEntry> entries;
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || IsComment(line)) continue;
    FileEntry entry{.key = {}, .values = {}, .is_array = false, .line = number};
    absl::Status status = ReadLine(line, entry);
    for (const FileEntry& other : entries) {
      if (!status.ok() || other.key != entry.key) continue;
      status = Invalid("'", entry.key, "' is set twice, first on line ", other.line);
    }
    if (!status.ok()) return Invalid(origin, ":", number, ": ", status.message());
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string QuoteForFile(absl::string_view value) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

}  // namespace histogram::server
