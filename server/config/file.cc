#include "server/config/file.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/base/read_file.h"

namespace histogram::server {
namespace {

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsComment(absl::string_view text) {
  return absl::StartsWith(text, "#") || absl::StartsWith(text, ";");
}

// Takes a value from the front of `rest`, and the spaces behind it. A bare one ends before one of
// `ends`.
absl::StatusOr<std::string> TakeValue(absl::string_view& rest, absl::string_view ends) {
  const char quote = rest.empty() ? '\0' : rest.front();
  if (quote != '"' && quote != '\'') {
    const size_t end = std::min(rest.find_first_of(ends), rest.size());
    const std::string bare(absl::StripTrailingAsciiWhitespace(rest.substr(0, end)));
    rest.remove_prefix(end);
    if (bare.empty()) return Wrong("a value is missing; write \"\" for an empty text");
    return bare;
  }
  size_t end = 1;
  while (end < rest.size() && rest[end] != quote) end += quote == '"' && rest[end] == '\\' ? 2 : 1;
  if (end >= rest.size()) return Wrong("a string lacks its closing quote");
  const absl::string_view quoted = rest.substr(1, end - 1);
  rest = absl::StripLeadingAsciiWhitespace(rest.substr(end + 1));
  std::string value(quoted);
  if (quote == '"' && !absl::CUnescape(quoted, &value)) {
    return Wrong("unknown escape in a string; use \\\\, \\\", \\n or \\t");
  }
  return value;
}

// Reads the text behind KEY =.
absl::Status ReadValues(absl::string_view rest, FileEntry& entry) {
  entry.is_array = absl::ConsumePrefix(&rest, "[");
  rest = absl::StripLeadingAsciiWhitespace(rest);
  for (bool more = !entry.is_array || !absl::ConsumePrefix(&rest, "]"); more;) {
    absl::StatusOr<std::string> value = TakeValue(rest, entry.is_array ? "#;\"'[,]" : "#;\"'[");
    if (!value.ok()) return value.status();
    entry.values.push_back(*std::move(value));
    more = entry.is_array && absl::ConsumePrefix(&rest, ",");
    rest = absl::StripLeadingAsciiWhitespace(rest);
    if (entry.is_array && absl::ConsumePrefix(&rest, "]")) {
      more = false;
    } else if (entry.is_array && !more) {
      return Wrong("a list lacks a comma or its closing ']'; it stands on one line");
    }
  }
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty() || IsComment(rest)) return absl::OkStatus();
  return Wrong(absl::StrCat("extra text after the value of ", entry.key));
}

absl::Status ReadLine(absl::string_view line, FileEntry& entry) {
  if (absl::StartsWith(line, "[")) {
    return Wrong("sections are not used; write every setting at the top level, as KEY = VALUE");
  }
  const size_t equals = line.find('=');
  entry.key = std::string(absl::StripAsciiWhitespace(line.substr(0, equals)));
  const bool plain = std::all_of(entry.key.begin(), entry.key.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (equals == absl::string_view::npos || entry.key.empty() || !plain) {
    return Wrong("expected KEY = VALUE");
  }
  return ReadValues(absl::StripLeadingAsciiWhitespace(line.substr(equals + 1)), entry);
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
      status = Wrong(absl::StrCat("'", entry.key, "' is set twice, first on line ", other.line));
    }
    if (!status.ok()) return Wrong(absl::StrCat(origin, ":", number, ": ", status.message()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseConfigFile(*text, path);
}

std::string QuoteForFile(absl::string_view value) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

}  // namespace histogram::server
