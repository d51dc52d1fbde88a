#include "server/base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
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
  const absl::Cleanup close_file = [fd] { close(fd); };
  constexpr int kWriterMsMax = 1000;
  std::string text;
  std::array<char, 8192> buffer;
  while (text.size() <= kReadFileBytesMax) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kWriterMsMax) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is a pipe to which nobody writes; give a file"));
    }
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes == 0) return text;
    if (bytes > 0) text.append(buffer.data(), static_cast<size_t>(bytes));
    if (bytes < 0 && errno != EINTR && errno != EAGAIN) return failed();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is larger than ", kReadFileBytesMax, " bytes"));
}

}  // namespace histogram::server
