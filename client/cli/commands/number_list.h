// Numbers written as text, one after the other, as the samples of the type that holds all of them.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBER_LIST_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBER_LIST_H_

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "forms/options.h"

namespace histogram::cli {

// Whether the character parts numbers.
inline bool Separates(char c) { return c == ' ' || c == ',' || (c >= '\t' && c <= '\r'); }

// The numbers of one input, as the bits of their type. They are integers until one is not whole.
class Numbers {
 public:
  enum class Kind : uint8_t { kI64, kU64, kF64 };

  // Adds a number of few digits without an exponent, which is nearly every one, up to `end` or a
  // separator; returns where it stops. Null: nothing is added, Add knows more.
  const char* AddShort(const char* at, const char* end) {
    const bool negative = at < end && *at == '-';
    if (negative) ++at;
    uint64_t digits = 0;
    const char* const begin = at;
    for (; at < end && IsDigit(*at); ++at) digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    const char* const point = at;
    if (at < end && *at == '.') {
      for (++at; at < end && IsDigit(*at); ++at)
        digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    }
    if (at - begin > kShortDigits || at == begin || (at < end && !Separates(*at))) return nullptr;
    if (at == point) {
      if (!AddWhole(negative, digits).ok()) return nullptr;
      return at;
    }
    // Both numbers are exact, so the quotient is rounded once.
    if (at == begin + 1 || digits >= static_cast<uint64_t>(kExactMax) || !ToReal("").ok())
      return nullptr;
    const double value = static_cast<double>(digits) / kPowers[at - point - 1];
    bits_.push_back(std::bit_cast<uint64_t>(negative ? -value : value));
    return at;
  }

  // Adds the number that is all of `text`. FAILED_PRECONDITION: it is none, or does not go with the
  // others.
  absl::Status Add(absl::string_view text) {
    const char* const end = text.data() + text.size();
    const char* at = text.data();
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    uint64_t magnitude = 0;
    const auto [stop, error] = std::from_chars(at, end, magnitude);
    if (error == std::errc() && stop == end && (!negative || magnitude <= kLeastI64)) {
      return AddWhole(negative, magnitude);
    }
    return AddReal(text);
  }
  absl::Status AddMissing() {
    absl::Status status = ToReal("");
    bits_.push_back(std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN()));
    return status;
  }

  Kind kind() const { return real_ ? Kind::kF64 : beyond_i64_ ? Kind::kU64 : Kind::kI64; }
  bool has_negative() const { return negative_; }
  // Makes all numbers f64, for `other`, which is no integer of their type. FAILED_PRECONDITION: an
  // integer is no f64; then nothing changes.
  absl::Status ToReal(absl::string_view other) {
    if (real_) return absl::OkStatus();
    // Without numbers beyond i64 these are i64.
    const auto value_of = [this](uint64_t bits) {
      return beyond_i64_ ? static_cast<double>(bits)
                         : static_cast<double>(static_cast<int64_t>(bits));
    };
    for (const uint64_t bits : bits_) {
      const double value = value_of(bits);
      if (std::fabs(value) < kExactMax || IsExact(value, bits, !beyond_i64_)) continue;
      return Inexact(beyond_i64_ ? absl::StrCat(bits) : absl::StrCat(static_cast<int64_t>(bits)),
                     absl::StrCat(other.empty() ? "an empty cell" : Quoted(other)));
    }
    for (uint64_t& bits : bits_) bits = std::bit_cast<uint64_t>(value_of(bits));
    real_ = true;
    return absl::OkStatus();
  }
  std::string Bytes() && {
    std::string bytes(reinterpret_cast<const char*>(bits_.data()), bits_.size() * sizeof(uint64_t));
    bits_ = {};
    return bytes;
  }

 private:
  static constexpr uint64_t kLeastI64 = uint64_t{1} << 63;
  static constexpr double kExactMax = 0x1p53;
  static constexpr ptrdiff_t kShortDigits = 18;  // a point among them; so many fit into 64 bits
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                       1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  static bool IsExact(double value, uint64_t bits, bool is_signed) {
    if (is_signed)
      return value >= -0x1p63 && static_cast<int64_t>(value) == static_cast<int64_t>(bits);
    return value < 0x1p64 && static_cast<uint64_t>(value) == bits;
  }
  static absl::Status Inexact(absl::string_view text, absl::string_view other) {
    return absl::FailedPreconditionError(absl::StrCat("the integer ", text, " is no f64, and ",
                                                      other, " is no integer of its type"));
  }

  absl::Status AddWhole(bool negative, uint64_t magnitude) {
    const bool below_0 = negative && magnitude > 0, beyond = !negative && magnitude >= kLeastI64;
    // No integer type holds both.
    if (!real_ && ((below_0 && beyond_i64_) || (beyond && negative_))) {
      absl::Status status = ToReal(absl::StrCat(negative ? "-" : "", magnitude));
      if (!status.ok()) return status;
    }
    if (!real_) {
      negative_ |= below_0;
      beyond_i64_ |= beyond;
      bits_.push_back(negative ? uint64_t{0} - magnitude : magnitude);
      return absl::OkStatus();
    }
    const auto value = static_cast<double>(magnitude);
    if (magnitude > static_cast<uint64_t>(kExactMax) && !IsExact(value, magnitude, false)) {
      return Inexact(absl::StrCat(negative ? "-" : "", magnitude), "a number before it");
    }
    bits_.push_back(std::bit_cast<uint64_t>(negative ? -value : value));
    return absl::OkStatus();
  }

  absl::Status AddReal(absl::string_view text) {
    const absl::string_view digits = absl::StripPrefix(text, "+");
    const char* const end = digits.data() + digits.size();
    double value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc::invalid_argument || stop != end || absl::StartsWith(text, "+-")) {
      return absl::FailedPreconditionError(absl::StrCat(Quoted(text), " is not a number"));
    }
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(std::string(digits).c_str(), nullptr);  // below the least f64 is 0
      if (std::isinf(value)) {
        return absl::FailedPreconditionError(
            absl::StrCat(Quoted(text), " is beyond the greatest f64, 1.7976931348623157e308"));
      }
    }
    if (std::isfinite(value) && !IsHeld(digits, value)) {
      uint64_t magnitude = 0;
      const bool negative = digits[0] == '-';
      const bool held =
          absl::SimpleAtoi(*IntegerOf(digits), &magnitude) && (!negative || magnitude <= kLeastI64);
      if (held) return AddWhole(negative, magnitude);
      return absl::FailedPreconditionError(
          absl::StrCat("the integer ", Quoted(text), " is no f64, and beyond i64 and u64"));
    }
    if (absl::Status status = ToReal(text); !status.ok()) return status;
    bits_.push_back(std::bit_cast<uint64_t>(value));
    return absl::OkStatus();
  }

  std::vector<uint64_t> bits_;
  bool real_ = false;
  bool negative_ = false, beyond_i64_ = false;  // among the integers
};

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_NUMBER_LIST_H_
