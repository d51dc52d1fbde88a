#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/count.h"
#include "client/cli/files.h"

namespace histogram::cli {

namespace {

// Sets what the input holds by its open file.
void Take(InputFile file, Input& input, bool standard_input = false) {
  struct stat info = {};
  if (fstat(*file, &info) != 0) {
    input.status = FileError("open", input.name);
  } else if (S_ISDIR(info.st_mode)) {
    input.status = absl::FailedPreconditionError(input.name + " is a directory; name its files");
  } else {
    const auto size = S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) : 0;
    void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, *file, 0);
    if (memory == MAP_FAILED) {  // no regular file, or one of procfs or sysfs
      input.stream = std::move(file);
      return;
    }
    (void)madvise(memory, size, MADV_SEQUENTIAL);
    input.holder = {memory, [size](void* mapped) { munmap(mapped, size); }};
    input.bytes = {static_cast<const char*>(memory), size};
    input.mapped = standard_input ? absl::StrCat("/proc/self/fd/", *file) : input.name;
    input.mapped_bytes = size;
    input.mapped_inode = info.st_ino;
    const auto begin = static_cast<uint64_t>(lseek(*file, 0, SEEK_CUR));
    input.bytes.remove_prefix(std::min<uint64_t>(begin, size));
  }
}

}  // namespace

Input OpenFile(const std::string& path) {
  Input input = {path};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    input.status = FileError("open", path);
    return input;
  }
  Take(InputFile(new int(file),
                 [](const int* descriptor) {
                   close(*descriptor);
                   delete descriptor;
                 }),
       input);
  return input;
}

Input StandardInput(int standard_input) {
  Input input = {"standard input"};
  if (standard_input < 0) {
    input.status = absl::FailedPreconditionError("standard input is closed");
  } else {
    Take(std::make_shared<const int>(standard_input), input, /*standard_input=*/true);
  }
  return input;
}

absl::Status ReadOn(Input& input, uint64_t bytes) {
  const uint64_t most = std::min(bytes, input.limit);
  if (input.stream != nullptr && input.bytes.size() < most) {
    absl::StatusOr<std::string> more =
        ReadAll(*input.stream, input.name, most - input.bytes.size());
    if (!more.ok()) return more.status();
    more->insert(0, std::string(input.bytes));
    // Asked for its end a second time a terminal would wait for the next key.
    if (more->size() < most) input.stream = nullptr;
    input.Hold(*std::move(more));
  }
  return input.stream == nullptr && input.limited() && input.bytes.size() < input.limit
             ? CutOff(input)
             : absl::OkStatus();
}

absl::StatusOr<size_t> ReadNext(const Input& input, absl::Span<char> buffer, uint64_t done) {
  buffer = buffer.first(std::min<uint64_t>(buffer.size(), input.limit - done));
  size_t filled =
      done < input.bytes.size() ? input.bytes.copy(buffer.data(), buffer.size(), done) : 0;
  if (input.stream != nullptr) {
    const auto more = ReadFully(*input.stream, buffer.subspan(filled), input.name);
    if (!more.ok()) return more.status();
    filled += *more;
  }
  return filled < buffer.size() && input.limited() ? absl::StatusOr<size_t>(CutOff(input)) : filled;
}

absl::Status CutOff(const Input& input) {
  return absl::FailedPreconditionError(
      absl::StrCat(input.name, " ends before its last sample; was it cut off?"));
}

absl::Status StillWhole(const Input& input) {
  struct stat now = {};
  const bool shorter = stat(input.mapped.c_str(), &now) == 0 && now.st_ino == input.mapped_inode &&
                       static_cast<uint64_t>(now.st_size) < input.mapped_bytes;
  return shorter ? CutOff(input) : absl::OkStatus();
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
