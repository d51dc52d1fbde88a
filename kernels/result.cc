#include <histogram/result.h>

#include <cstdio>
#include <cstdlib>

namespace histogram {

void EndWithError(const Error& error) {
  std::fprintf(stderr, "histogram: the value of a failed Result was asked for: %s\n",
               error.message.c_str());
  std::abort();
}

}  // namespace histogram
