#include "client/cli/render/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace histogram::cli {
namespace {

constexpr int kColumnsMin = 20;

// The variable's value; empty where it is not set.
std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool LocaleIsUtf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = absl::AsciiStrToLower(Variable(name));
    if (locale.empty()) continue;
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

std::string Styled(const Terminal& terminal, const char* style, const std::string& text) {
  if (!terminal.colour || text.empty()) return text;
  return std::string("\x1b[") + style + "m" + text + "\x1b[0m";
}

}  // namespace

Terminal DetectTerminal(int file) {
  Terminal terminal;
  terminal.utf8 = LocaleIsUtf8();
  int columns = 0;
  if (absl::SimpleAtoi(Variable("COLUMNS"), &columns) && columns > 0) {
    terminal.columns = std::max(columns, kColumnsMin);
  }
  terminal.interactive = isatty(file) == 1;
  if (!terminal.interactive) return terminal;
  winsize size = {};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = std::max<int>(size.ws_col, kColumnsMin);
  }
  const std::string type = Variable("TERM");
  terminal.colour = Variable("NO_COLOR").empty() && !type.empty() && type != "dumb";
  return terminal;
}

std::string Bold(const Terminal& terminal, const std::string& text) {
  return Styled(terminal, "1", text);
}
std::string Dim(const Terminal& terminal, const std::string& text) {
  return Styled(terminal, "2", text);
}
std::string Cyan(const Terminal& terminal, const std::string& text) {
  return Styled(terminal, "36", text);
}

}  // namespace histogram::cli
