// The types of samples, their sizes and names. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_SAMPLE_TYPE_H_
#define HISTOGRAM_SAMPLE_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace histogram {

enum class SampleType : uint8_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBf16,
  kF32,
  kF64,
};
inline constexpr size_t kSampleTypes = 12;

// Bytes of one sample: 1, 2, 4 or 8. Multi-byte samples are little-endian.
size_t SampleBytes(SampleType type);

// "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64".
std::string_view NameOf(SampleType type);

// The type of that name; nullopt for any other text.
std::optional<SampleType> ParseSampleType(std::string_view name);

}  // namespace histogram

#endif  // HISTOGRAM_SAMPLE_TYPE_H_
