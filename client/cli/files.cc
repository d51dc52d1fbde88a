#include "client/cli/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace histogram::cli {
namespace {

constexpr size_t kReadStep = size_t{1} << 20;

// For poll, whose int of milliseconds 25 days overflow: an hour at most.
int MillisecondsUntil(absl::Time deadline) {
  const absl::Duration left =
      std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

// Waits until `file` can be read: data, or its end. A FIFO that no writer has opened yet has
// neither.
absl::Status WaitForInput(int file, const std::string& name, absl::Time deadline) {
  while (true) {
    pollfd waiting{file, POLLIN, 0};
    const int ready = poll(&waiting, 1, MillisecondsUntil(deadline));
    if (ready > 0 && absl::Now() < deadline) return absl::OkStatus();
    if (ready > 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(name, " was not read before the time was over; allow more with --timeout"));
    }
    if (ready < 0 && errno != EINTR) return FileError("wait for", name);
    if (ready == 0 && absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(name, " sent nothing before the time was over; allow more with --timeout"));
    }
  }
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

absl::StatusOr<size_t> ReadFully(int file, absl::Span<char> buffer, const std::string& name,
                                 absl::Time deadline, std::optional<uint64_t> offset) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    if (absl::Status status = WaitForInput(file, name, deadline); !status.ok()) return status;
    const absl::Span<char> rest = buffer.subspan(filled);
    const ssize_t bytes = offset.has_value() ? pread(file, rest.data(), rest.size(),
                                                     static_cast<off_t>(*offset + filled))
                                             : read(file, rest.data(), rest.size());
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes < 0) return FileError("read", name);
    if (bytes == 0) break;
    filled += static_cast<size_t>(bytes);
  }
  return filled;
}

absl::StatusOr<std::string> ReadAll(int file, const std::string& name, absl::Time deadline,
                                    uint64_t bytes_max) {
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    // Grows by half at least, so that big files are copied few times.
    const size_t step = std::min<uint64_t>(std::max(kReadStep, before / 2), bytes_max - before);
    bytes.resize(before + step);
    const auto filled = ReadFully(file, absl::MakeSpan(&bytes[before], step), name, deadline);
    if (!filled.ok()) return filled.status();
    bytes.resize(before + *filled);
    if (*filled < step || bytes.size() == bytes_max) return bytes;
  }
}

bool WriteFully(int file, absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      if (absl::Now() >= deadline) return false;
      pollfd waiting{file, POLLOUT, 0};
      (void)poll(&waiting, 1, MillisecondsUntil(deadline));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

absl::Status WriteFile(const std::string& path, const std::string& bytes, absl::Time deadline) {
  struct stat info = {};
  const bool fifo = stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
  const auto error = [&](const char* what) {
    if (!fifo || absl::Now() < deadline) return FileError(what, path);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was not read before the time was over; allow more with --timeout"));
  };
  int file = -1;
  // Without O_NONBLOCK a FIFO that has no reader yet blocks past any deadline.
  while ((file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)) <
         0) {
    if (errno != ENXIO || !fifo || absl::Now() >= deadline) return error("open");
    absl::SleepFor(absl::Milliseconds(10));
  }
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const bool written = WriteFully(file, bytes, deadline);
  const absl::Status status = written ? absl::OkStatus() : error("write");
  if (!written && regular) {
    (void)!ftruncate(file, 0);
    (void)unlink(path.c_str());
  }
  return close(file) == 0 || !written ? status : FileError("write", path);
}

}  // namespace histogram::cli
