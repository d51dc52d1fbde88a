#include "tests/fuzz/fuzz_support.h"

#include <cstdio>
#include <cstdlib>

void FuzzFail(const char* file, int line, const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: failed: %s\n%s\n", file, line, what, detail.c_str());
  std::abort();
}

SlicedMessage::SlicedMessage(std::string_view message, const std::vector<size_t>& lengths) {
  for (const size_t length : lengths) {
    const std::string_view piece = message.substr(0, length);
    Add(piece);
    message.remove_prefix(piece.size());
  }
  Add(message);
}

void SlicedMessage::Add(std::string_view piece) {
  auto& bytes = storage_.emplace_back(new uint8_t[piece.size()]);
  if (!piece.empty()) std::memcpy(bytes.get(), piece.data(), piece.size());
  fragments_.emplace_back(bytes.get(), piece.size());
}

bool SlicedMessage::Holds(histogram::Fragment piece) const {
  if (piece.empty()) return true;
  for (const histogram::Fragment& slice : fragments_) {
    if (piece.data() >= slice.data() &&
        piece.data() + piece.size() <= slice.data() + slice.size()) {
      return true;
    }
  }
  return false;
}
