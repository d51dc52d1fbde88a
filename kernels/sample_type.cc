#include <histogram/sample_type.h>

#include <array>

namespace histogram {
namespace {

struct Row {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<Row, kSampleTypes> kRows = {{{"u8", 1},
                                                  {"i8", 1},
                                                  {"u16", 2},
                                                  {"i16", 2},
                                                  {"u32", 4},
                                                  {"i32", 4},
                                                  {"u64", 8},
                                                  {"i64", 8},
                                                  {"f16", 2},
                                                  {"bf16", 2},
                                                  {"f32", 4},
                                                  {"f64", 8}}};

}  // namespace

size_t SampleBytes(SampleType type) { return kRows[static_cast<size_t>(type)].bytes; }

std::string_view NameOf(SampleType type) { return kRows[static_cast<size_t>(type)].name; }

std::optional<SampleType> ParseSampleType(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<SampleType>(i);
  }
  return std::nullopt;
}

}  // namespace histogram
