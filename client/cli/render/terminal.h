// The terminal that the program writes to. Thread-safe: plain data and functions without state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_

#include <string>

namespace histogram::cli {

struct Terminal {
  bool interactive = false;
  int columns = 80;
  bool colour = false;
  bool utf8 = false;
};

// The terminal of a file descriptor. If it is no terminal it has no colour, and the columns that
// COLUMNS says, else 80. NO_COLOR (not empty) turns colour off, and so does a TERM that is dumb,
// empty or not set. The first one of LC_ALL, LC_CTYPE and LANG that is not empty decides about
// UTF-8.
Terminal DetectTerminal(int file);

// Adds the escape sequence if colour is on.
std::string Bold(const Terminal& terminal, const std::string& text);
std::string Dim(const Terminal& terminal, const std::string& text);
std::string Cyan(const Terminal& terminal, const std::string& text);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_
