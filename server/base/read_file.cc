#include "server/base/read_file.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace histogram::server {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  std::string text(kReadFileBytesMax + 1, '\0');
  if (file != nullptr) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (file == nullptr || std::ferror(file.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  text.shrink_to_fit();
  if (text.size() <= kReadFileBytesMax) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is larger than ", kReadFileBytesMax, " bytes"));
}

}  // namespace histogram::server
