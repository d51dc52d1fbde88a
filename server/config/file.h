// The config file: a flat subset of TOML that also reads plain INI.
//
//   # comment                      ; comment
//   queue-bytes-max = "256MiB"     # strings in "..." or '...', or bare words and numbers
//   listen = ["127.0.0.1:50051", "unix:/run/histogram.sock"]
//
// A setting stands on one line. Anything else (sections, nested values, a key given twice) is an
// error with its line. No state.
#ifndef HISTOGRAM_SERVER_CONFIG_FILE_H_
#define HISTOGRAM_SERVER_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::server {

struct FileEntry {
  std::string key;
  std::vector<std::string> values;
  bool is_array = false;
  int line = 0;  // from 1
};

// `origin` is the file's name as the errors show it ("server.toml:3: ...").
absl::StatusOr<std::vector<FileEntry>> ParseConfigFile(absl::string_view text,
                                                       absl::string_view origin);

// Reads and parses; an error is a sentence, as ReadFile and ParseConfigFile say it.
absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path);

// A string as the file writes it, in double quotes.
std::string QuoteForFile(absl::string_view value);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_FILE_H_
