#include "client/cli/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace histogram::cli {
namespace {

constexpr size_t kReadStep = size_t{1} << 20;

// Whether the last operation is to be tried again, since a signal came or, after a wait, since the
// descriptor is ready for it.
bool TryAgain(int file, int16_t events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd waiting{file, events, 0};
  (void)poll(&waiting, 1, -1);
  return true;
}

}  // namespace

absl::Status FileError(const char* what, const std::string& path) {
  const int error = errno;
  // A shell hands a pattern on as it is where no file matches it.
  if (error == ENOENT && path.find_first_of("*?[") != std::string::npos) {
    return absl::FailedPreconditionError(absl::StrCat("no file matches ", path));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", what, " ", path, ": ", strerror(error)));
}

absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t bytes = read(file, buffer.data() + filled, buffer.size() - filled);
    if (bytes < 0 && TryAgain(file, POLLIN)) continue;
    if (bytes < 0) return FileError("read", name);
    if (bytes == 0) break;
    filled += static_cast<size_t>(bytes);
  }
  return filled;
}

absl::StatusOr<std::string> ReadAll(int file, const std::string& name, uint64_t bytes_max) {
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    // Grows by half at least, so that big files are copied few times.
    const size_t step = std::min<uint64_t>(std::max(kReadStep, before / 2), bytes_max - before);
    bytes.resize(before + step);
    const auto filled = ReadFully(file, absl::MakeSpan(&bytes[before], step), name);
    if (!filled.ok()) return filled.status();
    bytes.resize(before + *filled);
    if (*filled < step || bytes.size() == bytes_max) return bytes;
  }
}

bool WriteFully(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && !TryAgain(file, POLLOUT)) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return FileError("open", path);
  struct stat info = {};
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const bool written = WriteFully(file, bytes);
  const absl::Status status = written ? absl::OkStatus() : FileError("write", path);
  if (!written && regular) {
    (void)!ftruncate(file, 0);
    (void)unlink(path.c_str());
  }
  return close(file) == 0 || !written ? status : FileError("write", path);
}

}  // namespace histogram::cli
