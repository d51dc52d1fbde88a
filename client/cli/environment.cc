#include "client/cli/environment.h"

#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

std::string too_late;  // what a timeout says

void OnTimeout(int /*signal*/) {
  (void)!write(STDERR_FILENO, too_late.data(), too_late.size());
  _exit(kFailure);
}

}  // namespace

size_t ColumnsOf(int file) {
  constexpr size_t kColumnsMin = 20;
  winsize size = {};
  size_t columns = 80, named = 0;
  if (absl::SimpleAtoi(absl::NullSafeStringView(std::getenv("COLUMNS")), &named) && named > 0) {
    columns = named;
  }
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
  return std::max(columns, kColumnsMin);
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
    env.out << text;
    return kSuccess;
  }
  if (absl::Status status = WriteFile(output, text); !status.ok()) {
    return Fail(env, status.message());
  }
  return kSuccess;
}

size_t OutputColumns(const Environment& env, const OutputOptions& output) {
  return output.output.empty() ? env.out_columns : 80;
}

void SetTimeout(const Environment& env, double seconds) {
  too_late = absl::StrCat(env.program, ": not done within ", FormatNumber(seconds),
                          " s; allow more with --timeout\n");
  std::signal(SIGALRM, OnTimeout);
  const double whole = std::floor(std::min(seconds, 1e9));
  const double micros = seconds > 0 ? std::clamp((seconds - whole) * 1e6, 1.0, 999'999.0) : 0;
  itimerval timer = {};
  timer.it_value = {static_cast<time_t>(whole), static_cast<suseconds_t>(micros)};
  (void)setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace histogram::cli
