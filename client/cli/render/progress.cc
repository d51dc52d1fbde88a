#include "client/cli/render/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

// To the beginning of the line above, and erases all from there on.
constexpr char kBack[] = "\r\x1b[A\x1b[J";

}  // namespace

std::string ProgressLine(absl::string_view name, uint64_t bytes, std::optional<uint64_t> total,
                         absl::Duration elapsed, size_t columns) {
  const double rate = static_cast<double>(bytes) / std::max(absl::ToDoubleSeconds(elapsed), 1e-3);
  std::string facts = absl::StrCat("  ", FormatBytes(bytes), "  ", FormatRate(rate));
  // A file may grow while it is read.
  if (total.has_value() && *total > 0 && bytes <= *total) {
    const double share = static_cast<double>(bytes) / static_cast<double>(*total);
    facts = absl::StrFormat("  %3.0f %%  %s of %s  %s", std::floor(share * 100), FormatBytes(bytes),
                            FormatBytes(*total), FormatRate(rate));
    if (rate > 0) {
      const auto left = absl::Seconds(std::ceil(static_cast<double>(*total - bytes) / rate));
      absl::StrAppend(&facts, "  ", absl::FormatDuration(left), " left");
    }
  }
  const size_t room = columns > facts.size() ? columns - facts.size() : 0;
  return Truncate(Truncate(SafeText(name), room) + facts, columns);
}

void StatusLine::Show(const std::string& line) {
  if (!terminal_.interactive) return;
  out_ << absl::StrCat(drawn_ ? kBack : "", Truncate(line, terminal_.columns - 1), "\n")
       << std::flush;
  drawn_ = true;
}

void StatusLine::Clear() {
  if (drawn_) out_ << kBack << std::flush;
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
  line_.Show(ProgressLine(name_, bytes, total_, now - start_, line_.terminal().columns - 1));
}

}  // namespace histogram::cli
