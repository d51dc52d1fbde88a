#include "client/cli/picture/source.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace histogram::cli {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

}  // namespace

Source::Source(absl::string_view bytes)
    : Source(
          [bytes](absl::Span<char> to) mutable -> absl::StatusOr<size_t> {
            const size_t size = bytes.copy(to.data(), to.size());
            bytes.remove_prefix(size);
            return size;
          },
          bytes.size()) {}

absl::string_view Source::Head(size_t bytes) {
  while (buffer_.size() < bytes && !ended_) {
    const size_t before = buffer_.size();
    buffer_.resize(bytes);
    const auto size = reader_(absl::MakeSpan(buffer_).subspan(before));
    if (!size.ok()) status_ = size.status();
    buffer_.resize(before + size.value_or(0));
    ended_ = buffer_.size() < bytes;
  }
  return absl::string_view(buffer_).substr(0, bytes);
}

bool Source::Fill() {
  if (ended_) return false;
  begin_ += buffer_.size();
  at_ = 0;
  buffer_.resize(kBufferBytes);
  const auto size = reader_(absl::MakeSpan(buffer_));
  if (!size.ok()) status_ = size.status();
  buffer_.resize(size.value_or(0));
  ended_ = buffer_.size() < kBufferBytes;
  if (begin_ + buffer_.size() > kBytesMax) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("the picture's file is longer than the limit of ", kBytesMax >> 30, " GiB"));
    buffer_.clear();
    ended_ = true;
  }
  return !buffer_.empty();
}

size_t Source::Read(absl::Span<char> to) {
  size_t filled = 0;
  while (filled < to.size() && Peek().has_value()) {
    const size_t bytes = std::min(to.size() - filled, buffer_.size() - at_);
    memcpy(to.data() + filled, buffer_.data() + at_, bytes);
    filled += bytes;
    at_ += bytes;
  }
  return filled;
}

std::optional<uint64_t> Source::left() const {
  if (!size_.has_value()) return std::nullopt;
  return *size_ - std::min(*size_, begin_ + at_);
}

}  // namespace histogram::cli
