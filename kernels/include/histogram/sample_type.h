// The types of samples: one list, and what follows from it. Thread-safe: the functions have no
// state.
#ifndef HISTOGRAM_SAMPLE_TYPE_H_
#define HISTOGRAM_SAMPLE_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
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
enum class SampleKind : uint8_t { kUnsigned, kSigned, kFloat };

struct SampleTypeInfo {
  SampleType type;
  int number;  // in the API, histogram.v1.SampleType
  size_t bytes;
  std::string_view name;
  SampleKind kind;
};
// In the order of the enumeration.
inline constexpr SampleTypeInfo kSampleTypeList[] = {
    {SampleType::kU8, 1, 1, "u8", SampleKind::kUnsigned},
    {SampleType::kI8, 2, 1, "i8", SampleKind::kSigned},
    {SampleType::kU16, 3, 2, "u16", SampleKind::kUnsigned},
    {SampleType::kI16, 4, 2, "i16", SampleKind::kSigned},
    {SampleType::kU32, 5, 4, "u32", SampleKind::kUnsigned},
    {SampleType::kI32, 6, 4, "i32", SampleKind::kSigned},
    {SampleType::kU64, 7, 8, "u64", SampleKind::kUnsigned},
    {SampleType::kI64, 8, 8, "i64", SampleKind::kSigned},
    {SampleType::kF16, 9, 2, "f16", SampleKind::kFloat},
    {SampleType::kBf16, 10, 2, "bf16", SampleKind::kFloat},
    {SampleType::kF32, 11, 4, "f32", SampleKind::kFloat},
    {SampleType::kF64, 12, 8, "f64", SampleKind::kFloat},
};
inline constexpr size_t kSampleTypes = std::size(kSampleTypeList);
static_assert([] {
  size_t i = 0;
  for (const SampleTypeInfo& info : kSampleTypeList) {
    if (static_cast<size_t>(info.type) != i++) return false;
  }
  return true;
}());

constexpr const SampleTypeInfo& InfoOf(SampleType type) {
  return kSampleTypeList[static_cast<size_t>(type)];
}
// Bytes of one sample: 1, 2, 4 or 8. Multi-byte samples are little-endian.
constexpr size_t SampleBytes(SampleType type) { return InfoOf(type).bytes; }
constexpr SampleKind KindOf(SampleType type) { return InfoOf(type).kind; }
constexpr std::string_view NameOf(SampleType type) { return InfoOf(type).name; }

// The type of that name; nullopt for any other text.
constexpr std::optional<SampleType> ParseSampleType(std::string_view name) {
  for (const SampleTypeInfo& info : kSampleTypeList) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

// The type of that number in the API, where 0 means u8; nullopt for an unknown number.
constexpr std::optional<SampleType> SampleTypeOf(int number) {
  if (number == 0) return SampleType::kU8;
  for (const SampleTypeInfo& info : kSampleTypeList) {
    if (info.number == number) return info.type;
  }
  return std::nullopt;
}

// The values of an integer of 8 or 16 bits, from `lower` to below `upper`; nullopt for other types.
struct ValueRange {
  double lower = 0, upper = 0;
};
constexpr std::optional<ValueRange> WholeRange(SampleType type) {
  if (KindOf(type) == SampleKind::kFloat || SampleBytes(type) > 2) return std::nullopt;
  const double values = 1 << 8 * SampleBytes(type);
  const double lower = KindOf(type) == SampleKind::kSigned ? -values / 2 : 0;
  return ValueRange{lower, lower + values};
}

}  // namespace histogram

#endif  // HISTOGRAM_SAMPLE_TYPE_H_
