#include "client/cli/render/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/environment.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

// To the beginning of the line above, and erases all from there on.
constexpr char kBack[] = "\r\x1b[A\x1b[J";

}  // namespace

std::string ProgressLine(absl::string_view name, uint64_t bytes, std::optional<uint64_t> total,
                         absl::Duration elapsed, size_t columns) {
  const double rate = static_cast<double>(bytes) / std::max(absl::ToDoubleSeconds(elapsed), 1e-3);
  std::string facts = absl::StrCat("  ", FormatBytes(bytes));
  if (total.has_value() && *total >= bytes && bytes > 0) {  // a file may grow while it is read
    facts = absl::StrFormat("  %d %%%s of %s",
                            static_cast<int>(100.0 * static_cast<double>(bytes) / *total), facts,
                            FormatBytes(*total));
  }
  absl::StrAppend(&facts, "  ", FormatRate(rate));
  const size_t room = columns > facts.size() ? columns - facts.size() : 0;
  return Truncate(Truncate(SafeText(name), room) + facts, columns);
}

Progress::Progress(absl::string_view name, std::optional<uint64_t> total)
    : name_(name),
      total_(total),
      at_terminal_(isatty(STDERR_FILENO) == 1),
      start_(absl::Now()),
      next_(start_ + absl::Milliseconds(500)) {}

Progress::~Progress() {
  if (drawn_) std::cerr << kBack << std::flush;
}

void Progress::Update(uint64_t bytes) {
  const absl::Time now = absl::Now();
  if (!at_terminal_ || now < next_) return;
  next_ = now + absl::Milliseconds(100);
  // At once, so that no part of a line stays where Ctrl-C comes.
  std::cerr << absl::StrCat(
                   drawn_ ? kBack : "",
                   ProgressLine(name_, bytes, total_, now - start_, ColumnsOf(STDERR_FILENO) - 1),
                   "\n")
            << std::flush;
  drawn_ = true;
}

}  // namespace histogram::cli
