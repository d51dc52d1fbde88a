// Payloads of known distributions for tests and benchmarks, reproducible from a seed.
#ifndef HISTOGRAM_TESTS_KERNELS_PAYLOADS_H_
#define HISTOGRAM_TESTS_KERNELS_PAYLOADS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace histogram::testing {

enum class Distribution {
  kUniform,
  kConstant,
  kTwoAlternating,
  kSixteenValues,
  kLetters,
  kSorted,
  kGauss,
  kMultiplesOf32,
};

inline constexpr std::array<Distribution, 8> kDistributions = {
    Distribution::kUniform,       Distribution::kConstant,     Distribution::kTwoAlternating,
    Distribution::kSixteenValues, Distribution::kLetters,      Distribution::kSorted,
    Distribution::kGauss,         Distribution::kMultiplesOf32};

inline std::string Name(Distribution distribution) {
  constexpr const char* kNames[] = {"uniform", "constant", "two_alternating", "sixteen_values",
                                    "letters", "sorted",   "gauss",           "multiples_of_32"};
  return kNames[static_cast<size_t>(distribution)];
}

inline void PrintTo(Distribution distribution, std::ostream* out) { *out << Name(distribution); }

// splitmix64: small, fast, the same on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Below `bound`, which is at least 1.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

inline std::vector<uint8_t> MakePayload(Distribution distribution, size_t size, uint64_t seed = 1) {
  // Roughly the frequencies of English, and a space.
  static constexpr char kText[] =
      "etaoin shrdlu eat no the rain is in ton hat cumwfgypbvkxjqz e ta o ";
  Random random(seed);
  std::vector<uint8_t> bytes(size);
  const uint8_t constant = static_cast<uint8_t>(random.Next());
  for (size_t i = 0; i < size; ++i) {
    const uint64_t r = random.Next();
    switch (distribution) {
      case Distribution::kUniform:
        bytes[i] = static_cast<uint8_t>(r >> 56);
        break;
      case Distribution::kConstant:
        bytes[i] = constant;
        break;
      case Distribution::kTwoAlternating:
        bytes[i] = static_cast<uint8_t>(constant + (i & 1));
        break;
      case Distribution::kSixteenValues:
        bytes[i] = static_cast<uint8_t>((r >> 60) * 17);
        break;
      case Distribution::kLetters:
        bytes[i] = static_cast<uint8_t>(kText[(r >> 32) % (sizeof(kText) - 1)]);
        break;
      case Distribution::kSorted:
        bytes[i] = static_cast<uint8_t>(i * 256 / size);
        break;
      case Distribution::kGauss: {
        // A sum of eight uniform bytes: mean 128, standard deviation about 26.
        uint64_t sum = 0;
        for (int k = 0; k < 8; ++k) sum += (r >> (8 * k)) & 0xff;
        bytes[i] = static_cast<uint8_t>(sum / 8);
        break;
      }
      case Distribution::kMultiplesOf32:
        bytes[i] = static_cast<uint8_t>((r >> 61) * 32);
        break;
    }
  }
  return bytes;
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_PAYLOADS_H_
