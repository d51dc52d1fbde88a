// Which build of this program runs, so that what was measured with one is not used with another.
//
// Functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_TUNING_BUILD_ID_H_
#define HISTOGRAM_KERNELS_TUNING_BUILD_ID_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace histogram::tuning {

// The linker's hash over everything in the file that holds this function, in hexadecimal: it
// changes with any kernel. Where the linker was told to leave none, that file's name, size and
// time.
std::string BuildId();

// The build id in an ELF note segment; empty where it holds none, or is damaged.
std::string BuildIdInNotes(absl::Span<const uint8_t> notes);

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_BUILD_ID_H_
