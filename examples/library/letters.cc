// Counts the letters of a file in bins of six, in this process, with no service.
#include <histogram/histogram.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "/dev/stdin", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto letters = histogram::Binning::Alphabet('a', 26, 6);
  if (!letters.ok()) {
    std::fprintf(stderr, "%s\n", letters.error().message.c_str());
    return 1;
  }
  const histogram::Histogram result = histogram::Count(text, *letters);
  const char* const names[] = {"a-f", "g-l", "m-r", "s-x", "y-z"};
  for (size_t i = 0; i < result.counts.size(); ++i) {
    std::printf("%s %llu\n", names[i], static_cast<unsigned long long>(result.counts[i]));
  }
  std::printf("else %llu\n", static_cast<unsigned long long>(result.ignored));
}
