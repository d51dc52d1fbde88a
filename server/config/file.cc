#include "server/config/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace histogram::server {
namespace {

// A cursor over the file's text.
class Reader {
 public:
  Reader(absl::string_view text, absl::string_view origin) : text_(text), origin_(origin) {}

  absl::StatusOr<std::vector<FileEntry>> ReadAll() {
    std::vector<FileEntry> entries;
    for (SkipBlank(/*newlines=*/true); !AtEnd(); SkipBlank(/*newlines=*/true)) {
      absl::StatusOr<FileEntry> entry = ReadEntry();
      if (!entry.ok()) return entry.status();
      const auto same = std::find_if(entries.begin(), entries.end(),
                                     [&](const FileEntry& e) { return e.key == entry->key; });
      if (same != entries.end()) {
        return Error(absl::StrCat("'", entry->key, "' is set twice, first on line ", same->line),
                     entry->line);
      }
      entries.push_back(*std::move(entry));
    }
    return entries;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }

  absl::Status Error(absl::string_view what, int line) const {
    return absl::InvalidArgumentError(absl::StrCat(origin_, ":", line, ": ", what));
  }
  absl::Status Error(absl::string_view what) const { return Error(what, line_); }

  void SkipLine() {
    while (!AtEnd() && text_[at_] != '\n') ++at_;
  }

  // Skips spaces and comments; line ends too, where asked to.
  void SkipBlank(bool newlines) {
    for (; !AtEnd(); ++at_) {
      const char c = text_[at_];
      if (c == '#' || c == ';') {
        SkipLine();
        if (AtEnd()) return;
      }
      if (text_[at_] == '\n') {
        if (!newlines) return;
        ++line_;
      } else if (!absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
        return;
      }
    }
  }

  absl::StatusOr<FileEntry> ReadEntry() {
    FileEntry entry;
    entry.line = line_;
    if (Peek() == '[') {
      return Error("sections are not used; write every setting at the top level, as KEY = VALUE");
    }
    const size_t start = at_;
    while (!AtEnd() && (absl::ascii_isalnum(static_cast<unsigned char>(Peek())) || Peek() == '-' ||
                        Peek() == '_' || Peek() == '.')) {
      ++at_;
    }
    entry.key = std::string(text_.substr(start, at_ - start));
    SkipBlank(/*newlines=*/false);
    if (entry.key.empty() || Peek() != '=') return Error("expected KEY = VALUE");
    ++at_;
    SkipBlank(/*newlines=*/false);
    if (Peek() == '[') {
      entry.is_array = true;
      if (absl::Status status = ReadArray(entry); !status.ok()) return status;
    } else {
      absl::StatusOr<std::string> value = ReadValue(/*in_array=*/false);
      if (!value.ok()) return value.status();
      entry.values.push_back(*std::move(value));
    }
    SkipBlank(/*newlines=*/false);
    if (!AtEnd() && Peek() != '\n') return Error(absl::StrCat("extra text after ", entry.key));
    return entry;
  }

  absl::Status ReadArray(FileEntry& entry) {
    ++at_;  // the bracket
    while (true) {
      SkipBlank(/*newlines=*/true);
      if (Peek() == ']') break;
      absl::StatusOr<std::string> value = ReadValue(/*in_array=*/true);
      if (!value.ok()) return value.status();
      entry.values.push_back(*std::move(value));
      SkipBlank(/*newlines=*/true);
      if (Peek() == ',') {
        ++at_;
      } else if (Peek() != ']') {
        return Error(absl::StrCat("the list of ", entry.key, " lacks a comma or its closing ']'"));
      }
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadValue(bool in_array) {
    if (Peek() == '"' || Peek() == '\'') return ReadQuoted();
    const size_t start = at_;
    const auto ends = [&](char c) {
      return c == '\n' || c == '#' || c == ';' || c == '"' || c == '\'' || c == '[' ||
             (in_array && (c == ',' || c == ']'));
    };
    // A bare IPv6 address starts with a bracket, so it has to be quoted; everything else may be
    // bare.
    while (!AtEnd() && !ends(text_[at_])) ++at_;
    const absl::string_view bare = absl::StripAsciiWhitespace(text_.substr(start, at_ - start));
    if (bare.empty()) return Error("a value is missing; write \"\" for an empty text");
    return std::string(bare);
  }

  absl::StatusOr<std::string> ReadQuoted() {
    const char quote = text_[at_++];
    std::string value;
    for (; !AtEnd() && text_[at_] != '\n'; ++at_) {
      const char c = text_[at_];
      if (c == quote) {
        ++at_;
        return value;
      }
      if (quote == '"' && c == '\\') {
        ++at_;
        const std::optional<char> escaped = Unescape(Peek());
        if (!escaped) return Error("unknown escape in a string; use \\\\, \\\", \\n or \\t");
        value.push_back(*escaped);
      } else {
        value.push_back(c);
      }
    }
    return Error("a string lacks its closing quote");
  }

  static std::optional<char> Unescape(char c) {
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == '"' || c == '\\') return c;
    return std::nullopt;
  }

  absl::string_view text_;
  absl::string_view origin_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<FileEntry>> ParseConfigFile(absl::string_view text,
                                                       absl::string_view origin) {
  return Reader(text, origin).ReadAll();
}

absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path) {
  const auto failed = [&](int error) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot read the config file ", path));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return failed(EISDIR);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr) return failed(errno);
  std::string text(kConfigFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed(EIO);
  if (text.size() > kConfigFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config file ", path, " is larger than ", kConfigFileBytesMax, " bytes"));
  }
  return ParseConfigFile(text, path);
}

std::string QuoteForFile(absl::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace histogram::server
