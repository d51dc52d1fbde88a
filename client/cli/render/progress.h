// What a long command says of itself on the last line of a terminal. Prints nothing elsewhere. Not
// thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_
#define HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/environment.h"

namespace histogram::cli {

// "NAME   45 %  1.2 GiB of 2.6 GiB  1.1 GB/s  1s left". Without a total it has no share and no time
// left. It is never wider than `columns`.
std::string ProgressLine(absl::string_view name, uint64_t bytes, std::optional<uint64_t> total,
                         absl::Duration elapsed, size_t columns);

// A line that is drawn over. What is written behind it, as the prompt after Ctrl-C, begins a line
// of its own.
class StatusLine {
 public:
  StatusLine(std::ostream& out, const Terminal& terminal) : out_(out), terminal_(terminal) {}
  ~StatusLine() { Clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  const Terminal& terminal() const { return terminal_; }
  // Cuts off what is wider than the terminal.
  void Show(const std::string& line);
  void Clear();

 private:
  std::ostream& out_;
  const Terminal terminal_;
  bool drawn_ = false;
};

class Progress {
 public:
  Progress(std::ostream& out, const Terminal& terminal) : line_(out, terminal) {}

  void Begin(const std::string& name, std::optional<uint64_t> total);
  // Draws at most ten times a second, and not in the first half second.
  void Update(uint64_t bytes);
  void Clear() { line_.Clear(); }

 private:
  StatusLine line_;
  std::string name_;
  std::optional<uint64_t> total_;
  absl::Time start_;
  absl::Time next_;
};

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_RENDER_PROGRESS_H_
