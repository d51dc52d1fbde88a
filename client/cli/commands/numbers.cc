#include "client/cli/commands/numbers.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/connection.h"
#include "client/cli/render/text.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

constexpr size_t kTextBytes = size_t{1} << 20;
constexpr size_t kLineBytesMax = size_t{64} << 20;
constexpr size_t kShownBytes = 40;  // of a text that is not a number
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool Separates(char c) { return c == ' ' || c == ',' || (c >= '\t' && c <= '\r'); }

std::string Shown(absl::string_view text) {
  return absl::StrCat("'", SafeText(std::string(text.substr(0, kShownBytes))),
                      text.size() > kShownBytes ? "..." : "", "'");
}

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
    if (at == begin + 1 || digits >= static_cast<uint64_t>(kExactMax) || !ToReal().ok())
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
    absl::Status status = ToReal();
    bits_.push_back(std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN()));
    return status;
  }

  Kind kind() const { return real_ ? Kind::kF64 : beyond_i64_ ? Kind::kU64 : Kind::kI64; }
  bool has_negative() const { return negative_; }
  // Makes all numbers f64. FAILED_PRECONDITION: an integer is none; then nothing changes.
  absl::Status ToReal() {
    if (real_) return absl::OkStatus();
    // Without numbers beyond i64 these are i64.
    const auto value_of = [this](uint64_t bits) {
      return beyond_i64_ ? static_cast<double>(bits)
                         : static_cast<double>(static_cast<int64_t>(bits));
    };
    for (const uint64_t bits : bits_) {
      const double value = value_of(bits);
      if (std::fabs(value) < kExactMax || IsExact(value, bits, !beyond_i64_)) continue;
      return Inexact(beyond_i64_ ? absl::StrCat(bits) : absl::StrCat(static_cast<int64_t>(bits)));
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
  static constexpr ptrdiff_t kShortDigits = 18;  // and a point; as many are no more than 64 bits
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                       1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  static bool IsExact(double value, uint64_t bits, bool is_signed) {
    if (is_signed)
      return value >= -0x1p63 && static_cast<int64_t>(value) == static_cast<int64_t>(bits);
    return value < 0x1p64 && static_cast<uint64_t>(value) == bits;
  }
  static absl::Status Inexact(absl::string_view text) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the integer ", text, " is no f64, and the other numbers are no integers of its type"));
  }

  absl::Status AddWhole(bool negative, uint64_t magnitude) {
    const bool below_0 = negative && magnitude > 0, beyond = !negative && magnitude >= kLeastI64;
    if ((below_0 && beyond_i64_) || (beyond && negative_)) {  // no integer type holds both
      if (absl::Status status = ToReal(); !status.ok()) return status;
    }
    if (!real_) {
      negative_ |= below_0;
      beyond_i64_ |= beyond;
      bits_.push_back(negative ? uint64_t{0} - magnitude : magnitude);
      return absl::OkStatus();
    }
    const auto value = static_cast<double>(magnitude);
    if (magnitude > static_cast<uint64_t>(kExactMax) && !IsExact(value, magnitude, false)) {
      return Inexact(absl::StrCat(negative ? "-" : "", magnitude));
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
      return absl::FailedPreconditionError(absl::StrCat(Shown(text), " is not a number"));
    }
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(std::string(digits).c_str(), nullptr);  // below the least f64 is 0
      if (std::isinf(value)) {
        return absl::FailedPreconditionError(
            absl::StrCat(Shown(text), " is beyond the greatest f64, 1.7976931348623157e308"));
      }
    }
    const bool plain = digits.find_first_not_of("-0123456789") == absl::string_view::npos;
    if (!IsHeld(digits, value, plain)) {
      uint64_t magnitude = 0;
      const bool negative = digits[0] == '-';
      const bool held =
          absl::SimpleAtoi(*IntegerOf(digits), &magnitude) && (!negative || magnitude <= kLeastI64);
      return held ? AddWhole(negative, magnitude) : Inexact(Shown(text));
    }
    if (absl::Status status = ToReal(); !status.ok()) return status;
    bits_.push_back(std::bit_cast<uint64_t>(value));
    return absl::OkStatus();
  }

  std::vector<uint64_t> bits_;
  bool real_ = false;
  bool negative_ = false, beyond_i64_ = false;  // among the integers
};

// Reads an input in blocks that end between two numbers, or between two lines.
class Reader {
 public:
  Reader(const Input& input, InputFile file, absl::Time deadline, bool by_lines)
      : input_(input), file_(std::move(file)), deadline_(deadline), by_lines_(by_lines) {}

  // The next block; empty at the end.
  absl::StatusOr<absl::string_view> Next() {
    line_ += static_cast<uint64_t>(std::count(block_.begin(), block_.begin() + used_, '\n'));
    block_.erase(0, static_cast<size_t>(used_));
    used_ = 0;
    while (!ended_) {
      const size_t before = block_.size();
      if (before > kLineBytesMax) {
        return absl::FailedPreconditionError(absl::StrCat(
            by_lines_ ? "a line" : "a word", " is longer than ", FormatBytes(kLineBytesMax)));
      }
      block_.resize(before + kTextBytes);
      const auto bytes =
          ReadFully(*file_, absl::MakeSpan(block_).subspan(before), input_.name, deadline_);
      if (!bytes.ok()) return bytes.status();
      block_.resize(before + *bytes);
      ended_ = *bytes < kTextBytes;
      if (line_ == 0 && absl::StartsWith(block_, kByteOrderMark))
        block_.erase(0, kByteOrderMark.size());
      if (line_ == 0) line_ = 1;
      const auto last = std::find_if(block_.rbegin(), block_.rend(),
                                     [&](char c) { return by_lines_ ? c == '\n' : Separates(c); });
      if (ended_ || last != block_.rend()) {
        used_ = ended_ ? static_cast<ptrdiff_t>(block_.size()) : last.base() - block_.begin();
        break;
      }
    }
    return absl::string_view(block_).substr(0, static_cast<size_t>(used_));
  }

  // Where `at` in the present block is: "FILE, line 3: ".
  std::string Place(const char* at) const {
    const auto lines = std::count(block_.data(), at, '\n');
    return absl::StrCat(SafeText(input_.name), ", line ", line_ + static_cast<uint64_t>(lines),
                        ": ");
  }

 private:
  const Input& input_;
  const InputFile file_;
  const absl::Time deadline_;
  const bool by_lines_;
  std::string block_;
  ptrdiff_t used_ = 0;  // bytes of the block that Next has returned
  uint64_t line_ = 0;   // at the beginning of the block
  bool ended_ = false;
};

absl::Status At(const Reader& reader, const char* at, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(reader.Place(at), status.message()));
}

absl::Status ReadWords(Reader& reader, Numbers& numbers) {
  while (true) {
    const absl::StatusOr<absl::string_view> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->empty()) return absl::OkStatus();
    const char* at = block->data();
    const char* const end = at + block->size();
    while (true) {
      while (at < end && Separates(*at)) ++at;
      if (at == end) break;
      if (const char* const stop = numbers.AddShort(at, end); stop != nullptr) {
        at = stop;
        continue;
      }
      const char* const begin = at;
      while (at < end && !Separates(*at)) ++at;
      absl::Status status = numbers.Add({begin, static_cast<size_t>(at - begin)});
      if (!status.ok()) return At(reader, begin, status);
    }
  }
}

// Takes the next cell off the line, without its quotes. `unquoted` holds a cell with quotes in it.
absl::string_view TakeCell(absl::string_view& line, std::string& unquoted) {
  if (!absl::StartsWith(line, "\"")) {
    const size_t comma = std::min(line.find(','), line.size());
    const absl::string_view cell = line.substr(0, comma);
    line.remove_prefix(std::min(comma + 1, line.size()));
    return cell;
  }
  unquoted.clear();
  size_t at = 1;
  for (; at < line.size(); ++at) {
    if (line[at] == '"' && (at + 1 == line.size() || line[at + 1] != '"')) break;
    if (line[at] == '"') ++at;  // two mean one
    unquoted += line[at];
  }
  const size_t comma = std::min(line.find(',', std::min(at, line.size())), line.size());
  line.remove_prefix(std::min(comma + 1, line.size()));
  return unquoted;
}

// The index of the column in the header.
absl::StatusOr<size_t> FindColumn(absl::string_view header, const std::string& column) {
  std::vector<std::string> names;
  std::string unquoted;
  for (absl::string_view left = header; !left.empty();) {
    names.emplace_back(absl::StripAsciiWhitespace(TakeCell(left, unquoted)));
    if (names.back() == column) return names.size() - 1;
  }
  size_t number = 0;
  if (absl::SimpleAtoi(column, &number) && number >= 1 && number <= names.size()) return number - 1;
  std::string known;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 10); ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ", SafeText(names[i]));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--column: there is no ", Shown(column), "; the header has ", names.size(),
                   " columns: ", known, names.size() > 10 ? ", ..." : ""));
}

absl::Status ReadColumn(Reader& reader, const std::string& column, Numbers& numbers) {
  std::optional<size_t> index;
  std::string unquoted;
  while (true) {
    const absl::StatusOr<absl::string_view> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->empty()) return absl::OkStatus();
    for (absl::string_view left = *block; !left.empty();) {
      const size_t end = std::min(left.find('\n'), left.size());
      absl::string_view line = absl::StripSuffix(left.substr(0, end), "\r");
      left.remove_prefix(std::min(end + 1, left.size()));
      const char* const begin = line.data();
      if (line.empty()) continue;
      if (!index.has_value()) {
        const absl::StatusOr<size_t> found = FindColumn(line, column);
        if (!found.ok()) return At(reader, begin, found.status());
        index = *found;
        continue;
      }
      for (size_t i = 0; i < *index; ++i) TakeCell(line, unquoted);
      const absl::string_view cell = absl::StripAsciiWhitespace(TakeCell(line, unquoted));
      const absl::Status status = cell.empty() ? numbers.AddMissing() : numbers.Add(cell);
      if (!status.ok()) return At(reader, begin, status);
    }
  }
}

}  // namespace

absl::Status ReadNumbers(const std::string& column, int standard_input, absl::Time deadline,
                         std::vector<Input>& inputs, v1::Spec& spec) {
  std::vector<Numbers> all(inputs.size());
  bool real = false, beyond_i64 = false, negative = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto timed = TimeLook(inputs[i]);
    absl::StatusOr<InputFile> file = OpenInput(inputs[i], standard_input);
    if (!file.ok()) return file.status();
    Reader reader(inputs[i], *std::move(file), deadline, !column.empty());
    absl::Status status =
        column.empty() ? ReadWords(reader, all[i]) : ReadColumn(reader, column, all[i]);
    if (!status.ok()) return status;
    real |= all[i].kind() == Numbers::Kind::kF64;
    beyond_i64 |= all[i].kind() == Numbers::Kind::kU64;
    negative |= all[i].has_negative();
  }
  real |= beyond_i64 && negative;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (absl::Status status = real ? all[i].ToReal() : absl::OkStatus(); !status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(SafeText(inputs[i].name), ": ", status.message()));
    }
    inputs[i].bytes = std::move(all[i]).Bytes();
  }
  spec.set_sample_type(real         ? v1::SAMPLE_TYPE_FLOAT64
                       : beyond_i64 ? v1::SAMPLE_TYPE_UINT64
                                    : v1::SAMPLE_TYPE_INT64);
  return absl::OkStatus();
}

bool LooksLikeNumbers(absl::string_view beginning) {
  bool digit = false, separated = false;
  for (const char c : beginning) {
    digit |= absl::ascii_isdigit(static_cast<unsigned char>(c));
    separated |= Separates(c);
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c)) && !Separates(c) && c != '.' &&
        c != '-' && c != '+' && c != 'e' && c != 'E') {
      return false;
    }
  }
  return digit && separated;
}

}  // namespace histogram::cli
