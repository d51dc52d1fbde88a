// Counts the letters of a file in bins of six, in this process, with no service.
#include <histogram/histogram.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "/dev/stdin", std::ios::binary);
  const std::vector<char> text(std::istreambuf_iterator<char>(file), {});
  const auto letters = histogram::Binning::Alphabet('a', 26, 6);
  const auto result =
      histogram::Count({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, *letters);
  const char* const names[] = {"a-f", "g-l", "m-r", "s-x", "y-z"};
  for (size_t i = 0; i < result.counts.size(); ++i) {
    std::printf("%s %llu\n", names[i], static_cast<unsigned long long>(result.counts[i]));
  }
  std::printf("else %llu\n", static_cast<unsigned long long>(result.ignored));
}
