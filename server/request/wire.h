// Reads and writes protobuf's wire format by hand, for messages where generated code would copy the
// payload or the counts. https://protobuf.dev/programming-guides/encoding/
#ifndef HISTOGRAM_SERVER_REQUEST_WIRE_H_
#define HISTOGRAM_SERVER_REQUEST_WIRE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/batch.h"

namespace histogram::server::wire {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

// Reads a message in several slices. Accepts exactly the varints that protobuf's parser accepts.
// The slices outlive it. Not thread-safe.
class Reader {
 public:
  explicit Reader(absl::Span<const Fragment> slices) : slices_(slices) {
    for (const Fragment& slice : slices) remaining_ += slice.size();
    SkipEmpty();
  }

  // The bytes left in the message.
  uint64_t remaining() const { return remaining_; }

  // Reads the next field's tag. False if it is malformed (too long, field number 0).
  bool ReadTag(uint32_t& tag) {
    uint64_t value = 0;
    if (!ReadVarint(value, 5)) return false;
    tag = static_cast<uint32_t>(value);
    return tag >> 3 != 0;
  }

  // Reads a varint of at most `bytes_max` bytes.
  bool ReadVarint(uint64_t& value, int bytes_max = 10) {
    value = 0;
    for (int i = 0; i < bytes_max; ++i) {
      uint8_t byte = 0;
      if (!ReadByte(byte)) return false;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  // Reads the length of a length-delimited field: at most five bytes and below 2 GiB, as in
  // protobuf. False if it is malformed or exceeds remaining().
  bool ReadLength(uint64_t& length) {
    return ReadVarint(length, 5) && length <= INT32_MAX && length <= remaining_;
  }

  // Calls `sink` with each piece of the next `length` bytes. REQUIRES: length <= remaining().
  template <typename Sink>
  void Take(uint64_t length, Sink&& sink) {
    while (length > 0) {
      const Fragment& slice = slices_[index_];
      const uint64_t here = std::min<uint64_t>(length, slice.size() - offset_);
      sink(slice.subspan(offset_, here));
      Advance(here);
      length -= here;
    }
  }

 private:
  bool ReadByte(uint8_t& byte) {
    if (remaining_ == 0) return false;
    byte = slices_[index_][offset_];
    Advance(1);
    return true;
  }
  void Advance(uint64_t n) {
    offset_ += n;
    remaining_ -= n;
    SkipEmpty();
  }
  void SkipEmpty() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }

  absl::Span<const Fragment> slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
  uint64_t remaining_ = 0;
};

inline size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// The fields of a message, for Sizer and Writer. So one function describes a message, which both
// take. Zeros and empty texts are not sent, as in proto3.
template <typename Self>
class Fields {
 public:
  void Tag(uint32_t field, WireType type) { self().Varint((field << 3) | type); }
  void VarintField(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, kVarint);
    self().Varint(value);
  }
  void DoubleField(uint32_t field, double value) {  // with presence: sent even when 0
    Tag(field, kFixed64);
    self().Raw(&value, sizeof value);
  }
  // Starts a field of bytes, a packed field or a submessage of `size` bytes.
  void Length(uint32_t field, uint64_t size) {
    Tag(field, kBytes);
    self().Varint(size);
  }
  void TextField(uint32_t field, std::string_view text) {
    if (!text.empty()) Bytes(field, text.data(), text.size());
  }
  // Packed numbers of 64 bits.
  template <typename Number>
  void Fixed64s(uint32_t field, absl::Span<const Number> numbers) {
    static_assert(sizeof(Number) == sizeof(uint64_t));
    if (!numbers.empty()) Bytes(field, numbers.data(), numbers.size() * sizeof(Number));
  }
  // Packed varints.
  template <typename Number>
  void Varints(uint32_t field, absl::Span<const Number> numbers) {
    if (numbers.empty()) return;
    uint64_t size = 0;
    for (const Number number : numbers) size += VarintSize(number);
    self().Message(field, size, [&](auto& out) {
      for (const Number number : numbers) out.Varint(number);
    });
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  void Bytes(uint32_t field, const void* data, size_t size) {
    Length(field, size);
    self().Raw(data, size);
  }
};

// Counts the bytes that a Writer would write.
class Sizer : public Fields<Sizer> {
 public:
  size_t size() const { return size_; }

  void Varint(uint64_t value) { size_ += VarintSize(value); }
  void Raw(const void* /*data*/, size_t size) { size_ += size; }
  template <typename Body>
  void Message(uint32_t field, size_t size, const Body& /*body*/) {
    Length(field, size);
    size_ += size;
  }

 private:
  size_t size_ = 0;
};

// Appends to a buffer. The caller makes it large enough. Not thread-safe.
class Writer : public Fields<Writer> {
 public:
  explicit Writer(void* out) : out_(static_cast<uint8_t*>(out)) {}
  uint8_t* position() const { return out_; }

  void Varint(uint64_t value) {
    while (value >= 0x80) {
      *out_++ = static_cast<uint8_t>(value | 0x80);
      value >>= 7;
    }
    *out_++ = static_cast<uint8_t>(value);
  }
  void Raw(const void* data, size_t size) {
    static_assert(std::endian::native == std::endian::little, "fixed fields are little-endian");
    std::memcpy(out_, data, size);
    out_ += size;
  }
  // A length-delimited field: body(Writer&) writes `size` bytes.
  template <typename Body>
  void Message(uint32_t field, size_t size, const Body& body) {
    Length(field, size);
    body(*this);
  }

 private:
  uint8_t* out_;
};

// The bytes that `body` writes.
template <typename Body>
size_t SizeOf(const Body& body) {
  Sizer sizer;
  body(sizer);
  return sizer.size();
}

}  // namespace histogram::server::wire

#endif  // HISTOGRAM_SERVER_REQUEST_WIRE_H_
