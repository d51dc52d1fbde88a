// The samples of rows, one row after the other.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_ROWS_H_
#define HISTOGRAM_KERNELS_ROWS_H_

#include <histogram/rows.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace histogram {

namespace internal {

// Fills `to` with every `channels`th sample, beginning with the first of `from`.
template <typename Bits>
void TakeChannel(const std::byte* from, uint32_t channels, std::span<std::byte> to) {
  const size_t count = to.size() / sizeof(Bits);
  for (size_t i = 0; i < count; ++i) {  // samples may lie at any address
    std::memcpy(to.data() + i * sizeof(Bits), from + i * channels * sizeof(Bits), sizeof(Bits));
  }
}

inline void TakeChannel(const std::byte* from, uint32_t channels, size_t sample_bytes,
                        std::span<std::byte> to) {
  switch (sample_bytes) {
    case 1:
      return TakeChannel<uint8_t>(from, channels, to);
    case 2:
      return TakeChannel<uint16_t>(from, channels, to);
    case 4:
      return TakeChannel<uint32_t>(from, channels, to);
    default:
      return TakeChannel<uint64_t>(from, channels, to);
  }
}

}  // namespace internal

// Calls visit(row, samples) for each row of the payload, in order. `samples` is valid during the
// call: it may be a buffer that is reused. REQUIRES: Stretches is ok for the payload.
template <typename Visit>
void ForEachRow(const RowCut& cut, std::span<const std::byte> payload, size_t sample_bytes,
                Visit&& visit) {
  const uint64_t pixel_bytes = uint64_t{sample_bytes} * cut.channels;
  const uint64_t pixels = payload.size() / pixel_bytes;
  std::vector<std::byte> channel;
  uint64_t row = 0;
  const auto stretch = [&](uint64_t begin, uint64_t length) {
    const auto bytes = payload.subspan(begin * pixel_bytes, length * pixel_bytes);
    if (cut.channels == 1) return static_cast<void>(visit(row++, bytes));
    channel.resize(length * sample_bytes);
    for (uint32_t c = 0; c < cut.channels; ++c) {
      internal::TakeChannel(bytes.data() + c * sample_bytes, cut.channels, sample_bytes, channel);
      visit(row++, std::span<const std::byte>(channel));
    }
  };
  switch (cut.kind) {
    case RowCut::Kind::kOne:
      return stretch(0, pixels);
    case RowCut::Kind::kLengths: {
      uint64_t begin = 0;
      for (const uint64_t length : cut.lengths) {
        stretch(begin, length);
        begin += length;
      }
      return;
    }
    case RowCut::Kind::kWindows:
      break;
  }
  const uint64_t step = cut.step == 0 ? cut.window : cut.step;
  for (uint64_t begin = 0; begin < pixels; begin += step) {
    const uint64_t left = pixels - begin;
    if (left < cut.window && cut.step != 0) return;
    stretch(begin, std::min(left, cut.window));
    if (left <= step) return;  // begin + step might overflow
  }
}

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_ROWS_H_
