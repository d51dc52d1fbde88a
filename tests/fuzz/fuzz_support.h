// What the fuzz targets share: taking an input apart, and failing loudly.
//
// Plain values and functions without state. An Input is a view: the fuzzer's bytes outlive it.
#ifndef HISTOGRAM_TESTS_FUZZ_FUZZ_SUPPORT_H_
#define HISTOGRAM_TESTS_FUZZ_FUZZ_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/batch.h"

// Ends the process, which libFuzzer reports with the input that led here.
[[noreturn]] void FuzzFail(const char* file, int line, const char* what, const std::string& detail);

// `detail` is only evaluated on failure.
#define FUZZ_CHECK(condition, detail)                                                \
  do {                                                                               \
    if (!(condition)) FuzzFail(__FILE__, __LINE__, #condition, std::string(detail)); \
  } while (false)

// Takes numbers off the front of the fuzzer's bytes; past the end they are 0.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  size_t size() const { return size_; }

  template <typename T>
  T Take() {
    T value{};
    const size_t n = size_ < sizeof value ? size_ : sizeof value;
    if (n > 0) std::memcpy(&value, data_, n);  // data_ may be null where there is nothing
    data_ += n;
    size_ -= n;
    return value;
  }
  uint8_t TakeByte() { return Take<uint8_t>(); }

  // The next bytes, at most `n` of them.
  std::string_view TakeBytes(size_t n) {
    if (n > size_) n = size_;
    const std::string_view bytes(reinterpret_cast<const char*>(data_), n);
    data_ += n;
    size_ -= n;
    return bytes;
  }
  std::string_view TakeRest() { return TakeBytes(size_); }

 private:
  const uint8_t* data_;
  size_t size_;
};

// A message in slices, each in an allocation of exactly its size, so that AddressSanitizer sees a
// step beyond any of them.
class SlicedMessage {
 public:
  // Cuts `message` into pieces of `lengths` bytes; what is left is the last piece.
  SlicedMessage(std::string_view message, const std::vector<size_t>& lengths);

  const std::vector<histogram::Fragment>& fragments() const { return fragments_; }
  // Whether `piece` lies within one of the slices, so was not copied.
  bool Holds(histogram::Fragment piece) const;

 private:
  void Add(std::string_view piece);

  std::vector<std::unique_ptr<uint8_t[]>> storage_;
  std::vector<histogram::Fragment> fragments_;
};

#endif  // HISTOGRAM_TESTS_FUZZ_FUZZ_SUPPORT_H_
