#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/count.h"
#include "client/cli/files.h"

namespace histogram::cli {

absl::StatusOr<Source> Open(const Input& input) {
  if (input.bytes.has_value()) return Source{*input.bytes};
  if (input.opened != nullptr) return Source{input.head, input.opened};
  if (input.path == "-") return absl::FailedPreconditionError("standard input is closed");
  const Waiting waiting(input.name);  // a FIFO's writer
  const int file = open(input.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError("open", input.path);
  InputFile opened(new int(file), [](const int* descriptor) {
    close(*descriptor);
    delete descriptor;
  });
  struct stat info = {};
  if (fstat(file, &info) != 0) return FileError("open", input.path);
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(input.path, " is a directory; name its files"));
  }
  // sysfs tells one size of all of its files, and procfs none.
  struct statfs system = {};
  const bool true_size = fstatfs(file, &system) != 0 || system.f_type != SYSFS_MAGIC;
  if (!S_ISREG(info.st_mode) || info.st_size == 0 || !true_size) {
    (void)lseek(file, static_cast<off_t>(input.begin), SEEK_SET);
    return Source{"", std::move(opened)};
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return FileError("map", input.path);
  (void)madvise(memory, size, MADV_SEQUENTIAL);
  Source source = {{static_cast<const char*>(memory), size},
                   nullptr,
                   {memory, [size](void* mapped) { munmap(mapped, size); }}};
  source.bytes.remove_prefix(std::min<uint64_t>(input.begin, size));
  if (input.limited() && source.bytes.size() < input.limit) return CutOff(input);
  source.bytes = source.bytes.substr(0, input.limit);
  return source;
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

absl::StatusOr<size_t> ReadNext(const Input& input, const Source& source, absl::Span<char> buffer,
                                uint64_t done) {
  const absl::string_view known = source.bytes;
  const size_t copied = done < known.size() ? known.copy(buffer.data(), buffer.size(), done) : 0;
  if (source.stream == nullptr) return copied;
  const auto more = ReadFully(*source.stream, buffer.subspan(copied), input.name);
  if (!more.ok()) return more.status();
  return copied + *more;
}

absl::StatusOr<absl::string_view> ReadWhole(
    const Input& input, const Source& source, std::string& storage, uint64_t bytes_max,
    uint64_t head_bytes, const std::function<absl::Status(absl::string_view)>& check) {
  if (source.stream == nullptr) {
    const absl::Status status = check ? check(source.bytes) : absl::OkStatus();
    return status.ok() ? absl::StatusOr<absl::string_view>(source.bytes) : status;
  }
  storage = std::string(source.bytes);
  const uint64_t most = std::min(bytes_max, input.limit);
  for (const uint64_t until : {std::min(head_bytes, most), most}) {
    if (until <= storage.size()) continue;
    absl::StatusOr<std::string> more = ReadAll(*source.stream, input.name, until - storage.size());
    if (!more.ok()) return more.status();
    storage += *more;
    if (absl::Status s = check ? check(storage) : absl::OkStatus(); !s.ok()) return s;
    if (storage.size() < until) break;  // asked a second time a terminal would wait for a key
  }
  if (input.limited() && storage.size() < most) return CutOff(input);
  storage.resize(std::min<uint64_t>(storage.size(), most));
  return absl::string_view(storage);
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
