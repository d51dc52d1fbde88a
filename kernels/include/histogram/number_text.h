// Numbers as text that loses nothing.
#ifndef HISTOGRAM_NUMBER_TEXT_H_
#define HISTOGRAM_NUMBER_TEXT_H_

#include <array>
#include <charconv>
#include <string>

namespace histogram {

// The shortest text that parses as the same number.
template <typename Number>
std::string NumberText(Number value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

}  // namespace histogram

#endif  // HISTOGRAM_NUMBER_TEXT_H_
