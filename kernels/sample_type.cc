#include <histogram/sample_type.h>

#include <array>

namespace histogram {
namespace {

constexpr std::array<std::string_view, kSampleTypes> kNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"};
constexpr std::array<size_t, kSampleTypes> kBytes = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};

}  // namespace

size_t SampleBytes(SampleType type) { return kBytes[static_cast<size_t>(type)]; }

std::string_view NameOf(SampleType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<SampleType> ParseSampleType(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<SampleType>(i);
  }
  return std::nullopt;
}

}  // namespace histogram
