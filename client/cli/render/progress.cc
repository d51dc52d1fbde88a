#include "client/cli/render/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr size_t kBarMax = 30;
constexpr size_t kProgressBarMin = 8;
constexpr size_t kBrackets = 4;  // around the bar, and the blanks before it
constexpr size_t kNameMin = 8;

std::string TimeLeft(double seconds) {
  if (!(seconds < 360000)) return "long";
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d:%02d min", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d h", whole / 3600, whole / 60 % 60);
}

// The prompt that follows Ctrl-C begins a line of its own. The signal then ends the program.
void EndLine(int signal) {
  (void)!write(STDERR_FILENO, "\n", 1);
  (void)raise(signal);
}

// A program that ignores or handles SIGINT goes on to do so.
void OnInterrupt(void (*before)(int), void (*now)(int)) {
  struct sigaction action = {};
  if (sigaction(SIGINT, nullptr, &action) != 0 || action.sa_handler != before) return;
  action.sa_handler = now;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

std::string ProgressLine(absl::string_view name, uint64_t bytes, std::optional<uint64_t> total,
                         absl::Duration elapsed, const Terminal& terminal) {
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 1e-3);
  const double rate = static_cast<double>(bytes) / seconds;
  const auto columns = static_cast<size_t>(terminal.columns - 1);
  // A file may grow while it is read.
  if (total.has_value() && (*total == 0 || bytes > *total)) total.reset();
  if (!total.has_value()) {
    const std::string facts = absl::StrCat("  ", FormatBytes(bytes), "  ", FormatRate(rate));
    const size_t room = columns > facts.size() ? columns - facts.size() : 0;
    return Truncate(Truncate(SafeText(name), room, terminal.utf8) + facts, columns, terminal.utf8);
  }
  const double share = static_cast<double>(bytes) / static_cast<double>(*total);
  std::string facts = absl::StrFormat("  %3.0f %%  ", std::floor(share * 100));
  absl::StrAppend(&facts, FormatBytes(bytes), " of ", FormatBytes(*total), "  ", FormatRate(rate));
  if (rate > 0) {
    absl::StrAppend(&facts, "  ", TimeLeft(static_cast<double>(*total - bytes) / rate), " left");
  }
  // The name gives way first, then the bar.
  const size_t beside = columns > facts.size() ? columns - facts.size() : 0;
  const bool with_bar = beside >= kNameMin + kBrackets + kProgressBarMin;
  const size_t room = with_bar ? beside - kBrackets - kProgressBarMin : beside;
  const size_t name_width = std::min({DisplayWidth(SafeText(name)), columns / 4, room});
  std::string line = Truncate(SafeText(name), name_width, terminal.utf8);
  if (with_bar) {
    const size_t width = std::min(beside - DisplayWidth(line) - kBrackets, kBarMax);
    const auto full = static_cast<size_t>(share * static_cast<double>(width));
    std::string bar(full, '=');
    if (full < width) bar += '>';
    absl::StrAppend(&line, "  [", PadRight(bar, width), "]");
  }
  return Truncate(line + facts, columns, terminal.utf8);
}

void Progress::Begin(const std::string& name, std::optional<uint64_t> total) {
  Clear();
  name_ = name;
  total_ = total;
  start_ = absl::Now();
  next_ = start_ + absl::Milliseconds(500);
}

void Progress::Update(uint64_t bytes) {
  if (!terminal_.interactive) return;
  const absl::Time now = absl::Now();
  if (now < next_) return;
  next_ = now + absl::Milliseconds(100);
  if (!drawn_) OnInterrupt(SIG_DFL, EndLine);
  out_ << "\r\x1b[K" << ProgressLine(name_, bytes, total_, now - start_, terminal_) << std::flush;
  drawn_ = true;
}

void Progress::Clear() {
  if (!drawn_) return;
  out_ << "\r\x1b[K" << std::flush;
  OnInterrupt(EndLine, SIG_DFL);
  drawn_ = false;
}

}  // namespace histogram::cli
