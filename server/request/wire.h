// Reads and writes protobuf's wire format by hand, for messages where generated code would copy the
// payload or the counts. https://protobuf.dev/programming-guides/encoding/
#ifndef HISTOGRAM_SERVER_REQUEST_WIRE_H_
#define HISTOGRAM_SERVER_REQUEST_WIRE_H_

#include <google/protobuf/message_lite.h>

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

// Appends the fields of a message to a buffer, which the caller makes large enough, or only
// measures them. So one function describes a message for both. Zeros and empty texts are not sent,
// as in proto3. Not thread-safe.
template <bool kWrites>
class Fields {
 public:
  explicit Fields(void* out = nullptr) : out_(static_cast<uint8_t*>(out)) {}
  uint8_t* position() const { return out_; }  // of what is written
  size_t size() const { return size_; }       // of what is measured

  void Varint(uint64_t value) {
    if constexpr (kWrites) {
      while (value >= 0x80) {
        *out_++ = static_cast<uint8_t>(value | 0x80);
        value >>= 7;
      }
      *out_++ = static_cast<uint8_t>(value);
    } else {
      size_ += VarintSize(value);
    }
  }
  void Raw(const void* data, size_t size) {
    static_assert(std::endian::native == std::endian::little, "fixed fields are little-endian");
    if constexpr (kWrites) {
      std::memcpy(out_, data, size);
      out_ += size;
    } else {
      size_ += size;
    }
  }
  void Tag(uint32_t field, WireType type) { Varint((field << 3) | type); }
  void VarintField(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, kVarint);
    Varint(value);
  }
  void DoubleField(uint32_t field, double value) {  // with presence: sent even when 0
    Tag(field, kFixed64);
    Raw(&value, sizeof value);
  }
  // A field of bytes, a packed field or a submessage, sent even if it is empty.
  void Bytes(uint32_t field, const void* data, size_t size) {
    Length(field, size);
    Raw(data, size);
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
    Message(field, size, [&](auto& out) {
      for (const Number number : numbers) out.Varint(number);
    });
  }
  // A length-delimited field: body(Fields&) writes `size` bytes.
  template <typename Body>
  void Message(uint32_t field, size_t size, const Body& body) {
    Length(field, size);
    if constexpr (kWrites) {
      body(*this);
    } else {
      size_ += size;
    }
  }
  // A submessage of generated code. Its ByteSizeLong was called since it last changed.
  void Made(uint32_t field, const google::protobuf::MessageLite& message) {
    const auto size = static_cast<size_t>(message.GetCachedSize());
    Length(field, size);
    if constexpr (kWrites) {
      out_ = message.SerializeWithCachedSizesToArray(out_);
    } else {
      size_ += size;
    }
  }

 private:
  void Length(uint32_t field, uint64_t size) {
    Tag(field, kBytes);
    Varint(size);
  }

  uint8_t* out_;
  size_t size_ = 0;
};
using Sizer = Fields<false>;
using Writer = Fields<true>;

// The bytes that `body` writes.
template <typename Body>
size_t SizeOf(const Body& body) {
  Sizer sizer;
  body(sizer);
  return sizer.size();
}

}  // namespace histogram::server::wire

#endif  // HISTOGRAM_SERVER_REQUEST_WIRE_H_
