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
  const double rate = static_cast<double>(bytes) / std::max(absl::ToDoubleSeconds(elapsed), 1e-3);
  std::string facts = absl::StrCat("  ", FormatBytes(bytes), "  ", FormatRate(rate));
  // A file may grow while it is read.
  if (total.has_value() && *total > 0 && bytes <= *total) {
    const double share = static_cast<double>(bytes) / static_cast<double>(*total);
    facts = absl::StrFormat("  %3.0f %%  %s of %s  %s", std::floor(share * 100), FormatBytes(bytes),
                            FormatBytes(*total), FormatRate(rate));
    if (rate > 0) {
      absl::StrAppend(&facts, "  ", TimeLeft(static_cast<double>(*total - bytes) / rate), " left");
    }
  }
  const auto columns = static_cast<size_t>(terminal.columns - 1);
  const size_t room = columns > facts.size() ? columns - facts.size() : 0;
  return Truncate(Truncate(SafeText(name), room, terminal.utf8) + facts, columns, terminal.utf8);
}

void StatusLine::Show(const std::string& line) {
  if (!terminal_.interactive) return;
  if (!drawn_) OnInterrupt(SIG_DFL, EndLine);
  out_ << "\r\x1b[K" << Truncate(line, static_cast<size_t>(terminal_.columns) - 1, terminal_.utf8)
       << std::flush;
  drawn_ = true;
}

void StatusLine::Clear() {
  if (!drawn_) return;
  out_ << "\r\x1b[K" << std::flush;
  OnInterrupt(EndLine, SIG_DFL);
  drawn_ = false;
}

void Progress::Begin(const std::string& name, std::optional<uint64_t> total) {
  Clear();
  name_ = name;
  total_ = total;
  start_ = absl::Now();
  next_ = start_ + absl::Milliseconds(500);
}

void Progress::Update(uint64_t bytes) {
  const absl::Time now = absl::Now();
  if (!line_.terminal().interactive || now < next_) return;
  next_ = now + absl::Milliseconds(100);
  line_.Show(ProgressLine(name_, bytes, total_, now - start_, line_.terminal()));
}

}  // namespace histogram::cli
