#include "client/cli/render/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace histogram::cli {
namespace {

bool LocaleIsUtf8(const GetEnv& getenv) {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = getenv(name);
    if (!value.has_value() || value->empty()) continue;
    const std::string lower = absl::AsciiStrToLower(*value);
    return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
  }
  return false;
}

std::string Styled(const Terminal& terminal, const char* style, const std::string& text) {
  if (!terminal.colour || text.empty()) return text;
  return std::string("\x1b[") + style + "m" + text + "\x1b[0m";
}

}  // namespace

Terminal DetectTerminal(int file, const GetEnv& getenv) {
  Terminal terminal;
  terminal.utf8 = LocaleIsUtf8(getenv);
  terminal.interactive = isatty(file) == 1;
  if (!terminal.interactive) return terminal;
  winsize size = {};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = std::max<int>(size.ws_col, 20);
  }
  const auto no_colour = getenv("NO_COLOR");
  terminal.colour =
      !(no_colour.has_value() && !no_colour->empty()) && getenv("TERM").value_or("dumb") != "dumb";
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
