// What a command works with: the outside world, and how it ends and where it writes.
#ifndef HISTOGRAM_CLIENT_CLI_ENVIRONMENT_H_
#define HISTOGRAM_CLIENT_CLI_ENVIRONMENT_H_

#include <cstddef>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace histogram::cli {

// The columns of a file descriptor's terminal; else what COLUMNS says, or 80.
size_t ColumnsOf(int file);

// The outside world. Owns nothing.
struct Environment {
  int standard_input;
  std::ostream& out;
  std::ostream& err;
  size_t out_columns = 80;
  std::string program = "histogram-client";  // the name that the user called
  std::string command = {};  // whose help a usage error names, set by Run; empty: the program's
};

enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2, kInterrupted = 130 };

struct OutputOptions {
  std::string format = "table";  // table, json, csv, svg; by default what `output` ends in
  std::string output = {};       // a file; empty: standard output
};

// Writes a line for the user to `err`. It makes the names of files, servers and options safe.
void Note(Environment& env, absl::string_view message);
// These return an exit code. Fail and UsageError note the message. Emit writes `text` to the file
// `output`, or to `out` if that is empty.
int Fail(Environment& env, absl::string_view message);
int UsageError(Environment& env, absl::string_view message);
int Emit(Environment& env, const std::string& output, const std::string& text);
// The columns that the output is written for.
size_t OutputColumns(const Environment& env, const OutputOptions& output);

// Ends the process with an error after some seconds; 0: never, whatever was set before.
void SetTimeout(const Environment& env, double seconds);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_ENVIRONMENT_H_
