// The terminal that the program writes to. Thread-safe: plain data and a function without state.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_

#include <cstddef>

namespace histogram::cli {

struct Terminal {
  bool interactive = false;
  size_t columns = 80;
};

// The terminal of a file descriptor. Its columns are those that it has, else what COLUMNS says.
Terminal DetectTerminal(int file);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_TERMINAL_H_
