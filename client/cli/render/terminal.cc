#include "client/cli/render/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace histogram::cli {

Terminal DetectTerminal(int file) {
  constexpr size_t kColumnsMin = 20;
  Terminal terminal = {.interactive = isatty(file) == 1};
  const char* const columns = std::getenv("COLUMNS");
  size_t named = 0;
  if (columns != nullptr && absl::SimpleAtoi(columns, &named) && named > 0) {
    terminal.columns = std::max(named, kColumnsMin);
  }
  winsize size = {};
  if (terminal.interactive && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = std::max<size_t>(size.ws_col, kColumnsMin);
  }
  return terminal;
}

}  // namespace histogram::cli
