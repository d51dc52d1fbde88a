#include "kernels/tuning/build_id.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace histogram::tuning {
namespace {

constexpr char kOwner[] = "GNU";

struct Search {
  uintptr_t inside;  // an address in the file that is looked for
  std::string path;
  std::string id;
};

bool Holds(const dl_phdr_info& file, uintptr_t address) {
  for (size_t i = 0; i < file.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = file.dlpi_phdr[i];
    const uintptr_t begin = file.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

int Visit(dl_phdr_info* file, size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (!Holds(*file, search.inside)) return 0;
  search.path = file->dlpi_name;
  for (size_t i = 0; i < file->dlpi_phnum && search.id.empty(); ++i) {
    const ElfW(Phdr)& segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader has mapped the segment there.
    const auto* const notes =
        reinterpret_cast<const uint8_t*>(file->dlpi_addr + segment.p_vaddr);  // NOLINT
    search.id = BuildIdInNotes({notes, segment.p_memsz});
  }
  return 1;
}

uint64_t AlignedToWord(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

std::string BuildIdInNotes(absl::Span<const uint8_t> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes.remove_prefix(sizeof(header));
    const uint64_t name_bytes = AlignedToWord(header.n_namesz);
    const uint64_t bytes = AlignedToWord(header.n_descsz);
    if (name_bytes > notes.size() || bytes > notes.size() - name_bytes) return "";
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof(kOwner) &&
        std::memcmp(notes.data(), kOwner, sizeof(kOwner)) == 0) {
      const auto id = notes.subspan(name_bytes, header.n_descsz);
      return absl::BytesToHexString(
          absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
    }
    notes.remove_prefix(name_bytes + bytes);
  }
  return "";
}

std::string BuildId() {
  Search search;
  search.inside = reinterpret_cast<uintptr_t>(&BuildIdInNotes);
  dl_iterate_phdr(Visit, &search);
  if (!search.id.empty()) return search.id;
  const std::string path = search.path.empty() ? "/proc/self/exe" : search.path;
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return path;
  return absl::StrCat(path, " of ", static_cast<int64_t>(file.st_size), " bytes from ",
                      static_cast<int64_t>(file.st_mtim.tv_sec), ".",
                      static_cast<int64_t>(file.st_mtim.tv_nsec));
}

}  // namespace histogram::tuning
