#include "server/base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

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
  // To open a pipe to which nobody writes would block for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(fd, "rb"), &std::fclose);
  if (file == nullptr) return failed();
  struct stat info {};
  constexpr int kWriterMsMax = 1000;
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && poll(&readable, 1, kWriterMsMax) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a pipe to which nobody writes; give a file"));
  }
  fcntl(fd, F_SETFL, 0);  // a writer may take its time
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
