#include "server/process_tuning.h"

#include <malloc.h>

#include <climits>

namespace histogram::server {

void TuneMalloc() {
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace histogram::server
