// How far long work has come: a line at a terminal behind standard error, drawn over; elsewhere
// nothing. Not thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace histogram::cli {

// "NAME  45 %  1.2 GiB of 2.6 GiB  1.1 GB/s"; without a total no share. At most so many columns.
std::string ProgressLine(absl::string_view name, uint64_t bytes, std::optional<uint64_t> total,
                         absl::Duration elapsed, size_t columns);

class Progress {
 public:
  Progress(absl::string_view name, std::optional<uint64_t> total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws at most ten times a second, and not in the first half second. After Ctrl-C the line ends
  // with a new line, so that the prompt does not stand behind it.
  void Update(uint64_t bytes);

 private:
  const std::string name_;
  const std::optional<uint64_t> total_;
  const bool at_terminal_;
  bool drawn_ = false;
  const absl::Time start_;
  absl::Time next_;
};

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_
