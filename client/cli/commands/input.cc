#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/count.h"
#include "client/cli/files.h"

namespace histogram::cli {

absl::StatusOr<std::optional<uint64_t>> SizeOf(const Input& input) {
  if (input.bytes.has_value()) return input.bytes->size();
  if (input.path == "-") return std::nullopt;
  struct stat info = {};
  if (stat(input.path.c_str(), &info) != 0) return FileError("open", input.path);
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(input.path, " is a directory; name its files"));
  }
  // sysfs tells one size of all of its files.
  struct statfs system = {};
  const bool true_size = statfs(input.path.c_str(), &system) != 0 || system.f_type != SYSFS_MAGIC;
  if (!S_ISREG(info.st_mode) || info.st_size == 0 || !true_size) return std::nullopt;
  const auto size = static_cast<uint64_t>(info.st_size);
  const uint64_t left = size - std::min(size, input.begin);
  if (input.limited() && left < input.limit) return CutOff(input);
  return std::min(left, input.limit);
}

absl::StatusOr<InputFile> OpenInput(const Input& input) {
  if (input.bytes.has_value()) return nullptr;
  if (input.opened != nullptr) return input.opened;
  if (input.path == "-") return absl::FailedPreconditionError("standard input is closed");
  // Without O_NONBLOCK a FIFO that has no writer yet blocks past any deadline.
  const int file = open(input.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return FileError("open", input.path);
  InputFile opened(new int(file), [](const int* descriptor) {
    close(*descriptor);
    delete descriptor;
  });
  (void)posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
  if (input.begin > 0 && lseek(file, static_cast<off_t>(input.begin), SEEK_SET) < 0) {
    return FileError("open", input.path);
  }
  return opened;
}

Input StandardInput(int standard_input) {
  Input input = {"standard input", "-"};
  struct stat info = {};
  const std::string path = absl::StrCat("/dev/fd/", standard_input);
  const off_t begin = lseek(standard_input, 0, SEEK_CUR);
  if (fstat(standard_input, &info) == 0 && S_ISREG(info.st_mode) && begin >= 0 &&
      access(path.c_str(), R_OK) == 0) {
    input.path = path;
    input.begin = static_cast<uint64_t>(begin);
  } else if (standard_input >= 0) {
    input.opened = std::make_shared<const int>(standard_input);
  }
  return input;
}

absl::StatusOr<size_t> ReadNext(const Input& input, const InputFile& file, absl::Span<char> buffer,
                                uint64_t done, absl::Time deadline) {
  const std::string& known = input.bytes.has_value() ? *input.bytes : input.head;
  const size_t copied = done < known.size() ? known.copy(buffer.data(), buffer.size(), done) : 0;
  if (file == nullptr) return copied;
  const auto more = ReadFully(*file, buffer.subspan(copied), input.name, deadline);
  if (!more.ok()) return more.status();
  return copied + *more;
}

absl::Status CutOff(const Input& input) {
  return absl::FailedPreconditionError(
      absl::StrCat(input.name, " ends before its last sample; was it cut off?"));
}

bool IsFed(int standard_input) {
  struct stat info = {};
  return fstat(standard_input, &info) == 0 && isatty(standard_input) == 0;
}

bool IsFileOrPipe(int standard_input) {
  struct stat info = {};
  return fstat(standard_input, &info) == 0 && (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode));
}

absl::Status CheckOutput(const char* option, const std::string& output,
                         const std::vector<std::string>& files, int standard_input) {
  struct stat written = {};
  if (output.empty() || stat(output.c_str(), &written) != 0 || !S_ISREG(written.st_mode)) {
    return absl::OkStatus();
  }
  for (const std::string& file : files) {
    struct stat read = {};
    const bool known =
        (file == "-" ? fstat(standard_input, &read) : stat(file.c_str(), &read)) == 0;
    if (known && read.st_dev == written.st_dev && read.st_ino == written.st_ino) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": ", output, " is also an input, which would be overwritten"));
    }
  }
  return absl::OkStatus();
}

}  // namespace histogram::cli
