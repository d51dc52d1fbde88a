#include "server/base/read_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace histogram::server {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto failed = [&] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr) return failed();
  std::string text;
  std::array<char, 8192> buffer;
  size_t bytes = buffer.size();
  while (bytes == buffer.size() && text.size() <= kReadFileBytesMax) {
    bytes = std::fread(buffer.data(), 1, buffer.size(), file.get());
    text.append(buffer.data(), bytes);
  }
  if (std::ferror(file.get()) != 0) return failed();
  if (text.size() > kReadFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than ", kReadFileBytesMax, " bytes"));
  }
  return text;
}

}  // namespace histogram::server
