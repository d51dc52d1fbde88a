// The bytes of a picture in their order, which are read as they are needed. Not thread-safe.
#ifndef HISTOGRAM_CLIENT_CLI_PICTURE_SOURCE_H_
#define HISTOGRAM_CLIENT_CLI_PICTURE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace histogram::cli {

class Source {
 public:
  // Fills the buffer; returns fewer bytes only at the end.
  using Reader = std::function<absl::StatusOr<size_t>(absl::Span<char>)>;

  static constexpr uint64_t kBytesMax = uint64_t{4} << 30;

  // `size`: how many bytes there are, where it is known.
  Source(Reader reader, std::optional<uint64_t> size) : reader_(std::move(reader)), size_(size) {}
  explicit Source(absl::string_view bytes);

  // The next `bytes` bytes, which stay; fewer at the end. REQUIRES: nothing was taken yet.
  absl::string_view Head(size_t bytes);
  // The next byte, which stays; nullopt at the end.
  std::optional<char> Peek() {
    if (at_ == buffer_.size() && !Fill()) return std::nullopt;
    return buffer_[at_];
  }
  // Takes the byte that Peek has returned.
  void Skip() { ++at_; }
  // Returns fewer bytes only at the end.
  size_t Read(absl::Span<char> to);

  // How many bytes are left, where it is known.
  std::optional<uint64_t> left() const;
  // Why the bytes ended early: an error of the reader, or kBytesMax.
  const absl::Status& status() const { return status_; }

 private:
  bool Fill();

  Reader reader_;
  std::optional<uint64_t> size_;
  std::string buffer_;
  size_t at_ = 0;       // of the buffer
  uint64_t begin_ = 0;  // of the buffer, in the source
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_PICTURE_SOURCE_H_
