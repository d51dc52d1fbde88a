// The library beside the loop that everybody writes first: GB/s of one thread, of one size and one
// distribution. bench/library/run.py calls it, and numpy, in turn.
//
//   bench_library BYTES uniform|constant SECONDS     prints "loop GB/S" and "library GB/S"
//
// Counts are compared before anything is timed. Rates are by this thread's CPU time, so that a busy
// machine spoils them less.
#include <histogram/histogram.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string_view>
#include <vector>

namespace {

using histogram::ValueCounts;

void CountByLoop(const std::vector<uint8_t>& bytes, ValueCounts& counts) {
  for (const uint8_t value : bytes) ++counts[value];
}

void CountByLibrary(const std::vector<uint8_t>& bytes, ValueCounts& counts) {
  histogram::AddValues(bytes, counts);
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Counts again and again for that long, in groups that are long beside the clock's own cost.
template <typename Count>
double GigabytesPerSecond(const std::vector<uint8_t>& bytes, double seconds, const Count& count) {
  const size_t group = 1 + (size_t{1} << 18) / bytes.size();
  uint64_t counted = 0;
  ValueCounts counts{};
  const double begin = ThreadSeconds();
  double taken = 0;
  while (taken < seconds) {
    for (size_t i = 0; i < group; ++i) count(bytes, counts);
    counted += group * bytes.size();
    taken = ThreadSeconds() - begin;
  }
  uint64_t sum = 0;
  for (const uint64_t c : counts) sum += c;
  if (sum != counted) std::abort();
  return static_cast<double>(counted) / taken / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t size = argc == 4 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const double seconds = argc == 4 ? std::strtod(argv[3], nullptr) : 0;
  const std::string_view distribution = argc == 4 ? argv[2] : "";
  if (size == 0 || !(seconds > 0) || (distribution != "uniform" && distribution != "constant")) {
    std::fprintf(stderr, "usage: bench_library BYTES uniform|constant SECONDS\n");
    return 2;
  }
  std::vector<uint8_t> bytes(size, 42);
  std::mt19937 random(1);
  if (distribution == "uniform") {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  }
  ValueCounts expected{};
  CountByLoop(bytes, expected);
  if (histogram::CountValues(bytes) != expected) {
    std::fprintf(stderr, "the library's counts are wrong\n");
    return 1;
  }
  std::printf("loop %.6f\n", GigabytesPerSecond(bytes, seconds, CountByLoop));
  std::printf("library %.6f\n", GigabytesPerSecond(bytes, seconds, CountByLibrary));
}
