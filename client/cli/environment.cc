#include "client/cli/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

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

void Note(Environment& env, absl::string_view message) {
  env.err << env.program << ": " << SafeText(message) << "\n" << std::flush;
}

int Fail(Environment& env, absl::string_view message) {
  Note(env, message);
  return kFailure;
}

int UsageError(Environment& env, absl::string_view message) {
  Note(env, message);
  env.err << "Run " << env.program << " " << env.command << (env.command.empty() ? "" : " ")
          << "--help for more information.\n"
          << std::flush;
  return kUsage;
}

int Emit(Environment& env, const std::string& output, const std::string& text) {
  if (output.empty()) {
    env.out << text;  // the caller of all looks after its errors
    return kSuccess;
  }
  if (absl::Status status = WriteFile(output, text, env.deadline); !status.ok()) {
    return Fail(env, status.message());
  }
  return kSuccess;
}

size_t OutputColumns(const Environment& env, const OutputOptions& output) {
  return (output.output.empty() ? env.out_terminal : Terminal()).columns;
}

}  // namespace histogram::cli
