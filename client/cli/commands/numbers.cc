#include "absl/strings/numbers.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands/count.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

constexpr size_t kBeginningBytes = 4096;  // to tell text from other files
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr absl::string_view kSeparators = ",\t;";  // of cells

// Whether the character parts numbers.
bool Separates(char c) { return c == ' ' || c == ',' || (c >= '\t' && c <= '\r'); }

absl::StatusOr<double> RealOf(absl::string_view text) {
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
  return value;
}

// The numbers of one input, as the bits of their type: i64, u64 or f64.
class Numbers {
 public:
  // `other`: the number that needs f64, if one does; messages name it.
  Numbers(SampleType type, const std::string& other) : type_(type), needed_(type), other_(other) {}

  // Adds the number that `text` is; an empty text is a NaN. OUT_OF_RANGE: the number needs another
  // type, which needed() returns; the message quotes the number. FAILED_PRECONDITION: the text is
  // no number, or no type holds both the number and `other`.
  absl::Status Add(absl::string_view text) {
    const bool negative = absl::StartsWith(text, "-");
    const absl::string_view digits = text.substr(negative || absl::StartsWith(text, "+") ? 1 : 0);
    const char* const end = digits.data() + digits.size();
    uint64_t magnitude = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, magnitude);
    bool whole = error == std::errc() && stop == end && (!negative || magnitude <= kLeastI64);
    double value = negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
    if (text.empty()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (!whole) {
      const absl::StatusOr<double> real = RealOf(text);
      if (!real.ok()) return real.status();
      value = *real;
      if (std::isfinite(value) && !IsHeld(digits, value)) {
        whole = absl::SimpleAtoi(*IntegerOf(digits), &magnitude) &&
                (!negative || magnitude <= kLeastI64);
        if (!whole) {
          return absl::FailedPreconditionError(
              absl::StrCat("the integer ", Quoted(text), " is no f64, and beyond i64 and u64"));
        }
      }
    }
    if (type_ == SampleType::kF64) return AddReal(text, whole, magnitude, value);
    const bool fits =
        type_ == SampleType::kI64 ? magnitude < kLeastI64 || negative : !negative || magnitude == 0;
    if (whole && fits) {
      bits_.push_back(negative ? uint64_t{0} - magnitude : magnitude);
      return absl::OkStatus();
    }
    needed_ = whole && type_ == SampleType::kI64 ? SampleType::kU64 : SampleType::kF64;
    return absl::OutOfRangeError(text.empty() ? "an empty cell" : Quoted(text));
  }
  // Adds the number at the front of a text, up to a separator; returns where it stops. Null:
  // nothing is added, Add knows more.
  const char* AddFront(const char* at, const char* end) {
    return type_ == SampleType::kF64 ? AddFrontAs<double>(at, end) : AddFrontAs<int64_t>(at, end);
  }
  SampleType needed() const { return needed_; }
  std::string Bytes() && {
    std::string bytes(reinterpret_cast<const char*>(bits_.data()), bits_.size() * sizeof(uint64_t));
    bits_ = {};
    return bytes;
  }

 private:
  static constexpr uint64_t kLeastI64 = uint64_t{1} << 63;

  template <typename Number>
  const char* AddFrontAs(const char* at, const char* end) {
    Number number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    const bool known = error == std::errc() && (stop == end || Separates(*stop)) &&
                       number < static_cast<Number>(int64_t{1} << 53) &&
                       number > -static_cast<Number>(int64_t{1} << 53);
    if (!known || (type_ == SampleType::kU64 && number < 0)) return nullptr;
    bits_.push_back(std::bit_cast<uint64_t>(number));
    return stop;
  }

  absl::Status AddReal(absl::string_view text, bool whole, uint64_t magnitude, double value) {
    const double size = std::fabs(value);
    if (whole && !(size < 0x1p64 && static_cast<uint64_t>(size) == magnitude)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the integer ", Shown(text), " is no f64, and ", other_, " is no integer of its type"));
    }
    bits_.push_back(std::bit_cast<uint64_t>(value));
    return absl::OkStatus();
  }

  const SampleType type_;
  SampleType needed_;
  const std::string& other_;
  std::vector<uint64_t> bits_;
};

// The text of an input.
struct Text {
  const std::string& name;
  absl::string_view bytes;
  std::shared_ptr<const void> holder = nullptr;  // of the bytes

  // Names the place of `at` in the text: "FILE, line 3: ".
  absl::Status Error(const char* at, absl::string_view message,
                     absl::StatusCode code = absl::StatusCode::kFailedPrecondition) const {
    const auto line = 1 + std::count(bytes.data(), at, '\n');
    return absl::Status(code, absl::StrCat(name, ", line ", line, ": ", message));
  }
};

absl::Status CheckBeginning(const std::string& name, absl::string_view beginning) {
  const Text text = {name, beginning};
  if (absl::StartsWith(beginning, "\xFF\xFE") || absl::StartsWith(beginning, "\xFE\xFF")) {
    return text.Error(beginning.data(),
                      "the text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8");
  }
  if (absl::StartsWith(beginning, "\x93NUMPY")) {
    return text.Error(beginning.data(), "a .npy file is no text; leave out --numbers and --column");
  }
  if (absl::StrContains(beginning.substr(0, kBeginningBytes), '\0')) {
    return text.Error(beginning.data(),
                      "this is no text but binary, compressed or UTF-16; unpack or convert it "
                      "before");
  }
  return absl::OkStatus();
}

absl::Status ReadWords(const Text& text, Numbers& numbers) {
  const char* const end = text.bytes.data() + text.bytes.size();
  bool first = true;
  for (const char* at = text.bytes.data();; first = false) {
    while (at < end && Separates(*at)) ++at;
    if (at == end) return absl::OkStatus();
    const char* const begin = at;
    at = numbers.AddFront(begin, end);
    if (at != nullptr) continue;
    at = std::find_if(begin, end, Separates);
    const absl::Status status = numbers.Add({begin, static_cast<size_t>(at - begin)});
    if (status.ok()) continue;
    if (absl::IsOutOfRange(status)) return status;
    const bool header = first && absl::ascii_isalpha(static_cast<unsigned char>(*begin));
    return text.Error(begin,
                      absl::StrCat(status.message(),
                                   header ? "; --column NAME counts what is below a header" : ""));
  }
}

// A row of a table: its cells without quotes and blanks around them, and where it ends: at a line
// end, or at the end of what was read, perhaps within quotes.
struct TableRow {
  std::vector<absl::string_view> cells;
  std::deque<std::string> unquoted;  // hold the cells with quotes
  const char* end = nullptr;
  bool open = false;
};

void ReadRow(char separator, const char* at, const char* end, TableRow& row) {
  row.cells.clear();
  row.unquoted.clear();
  while (true) {
    const bool quoted = at < end && *at == '"';
    if (quoted) row.unquoted.emplace_back();
    row.open = quoted;
    while (row.open) {
      const char* const quote = std::find(++at, end, '"');
      row.unquoted.back().append(at, quote);
      at = quote;
      if (at == end) break;
      row.open = ++at < end && *at == '"';
      if (row.open) row.unquoted.back() += '"';  // two mean one
    }
    const char* const begin = at;
    if (!row.open) at = std::find_if(at, end, [&](char c) { return c == separator || c == '\n'; });
    absl::string_view cell(begin, static_cast<size_t>(at - begin));
    if (quoted) cell = row.unquoted.back().append(begin, at);
    row.cells.push_back(absl::StripAsciiWhitespace(cell));
    row.end = at;
    if (at == end || *at == '\n') return;
    ++at;
  }
}

// The first of kSeparators that the header has outside quotes, or else within.
char SeparatorOf(absl::string_view header) {
  std::string outside;
  bool quoted = false;
  for (const char c : header) {
    quoted ^= c == '"';
    if (!quoted) outside += c;
  }
  for (const absl::string_view text : {absl::string_view(outside), header}) {
    for (const char c : kSeparators) {
      if (absl::StrContains(text, c)) return c;
    }
  }
  return ',';
}

// The columns of a table, by its header.
struct Header {
  char separator = ',';
  size_t columns = 0;
  size_t index = 0;  // of the column that is counted
  std::string name;  // its name
};

absl::StatusOr<Header> ReadHeader(absl::string_view row, const std::string& column) {
  Header header;
  header.separator = SeparatorOf(row);
  TableRow cells;
  ReadRow(header.separator, row.data(), row.data() + row.size(), cells);
  const std::vector<absl::string_view>& names = cells.cells;
  header.columns = names.size();
  const auto same = std::count(names.begin(), names.end(), column);
  if (same > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--column: the header has ", Quoted(column), " ",
                                                   same, " times; say the column's number"));
  }
  header.index = static_cast<size_t>(std::find(names.begin(), names.end(), column) - names.begin());
  if (size_t number = 0; same == 0 && absl::SimpleAtoi(column, &number) && number >= 1) {
    header.index = number - 1;
  }
  if (header.index < names.size()) {
    header.name = std::string(names[header.index]);
    return header;
  }
  std::string known;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 10); ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ", Shown(names[i]));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--column: there is no ", Quoted(column), "; the header has ", names.size(),
      names.size() == 1 ? " column: " : " columns: ", known, names.size() > 10 ? ", ..." : ""));
}

absl::Status AddCell(const Header& header, const TableRow& row, Numbers& numbers) {
  const absl::string_view cell = header.index < row.cells.size() ? row.cells[header.index] : "";
  absl::Status status = numbers.Add(cell);
  const size_t cells = row.cells.size() - (row.cells.back().empty() ? 1 : 0);  // but an empty last
  if (!status.ok() || cells <= header.columns) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("the row has more cells than the ", header.columns, " of the header"));
}

// Sets `number` to the column's name where that is a number.
absl::Status ReadColumn(const Text& text, const std::string& column, Numbers& numbers,
                        std::string& number) {
  std::optional<Header> header;
  TableRow row;
  const char* const end = text.bytes.data() + text.bytes.size();
  for (const char* at = text.bytes.data(); at < end; at = row.end + (row.end < end ? 1 : 0)) {
    const char separator =
        header.has_value() ? header->separator
                           : SeparatorOf({at, static_cast<size_t>(std::find(at, end, '\n') - at)});
    ReadRow(separator, at, end, row);
    if (row.open) return text.Error(at, "a quote is not closed");
    const absl::string_view line(at, static_cast<size_t>(row.end - at));
    // A table's row of empty cells between tabs is no blank line.
    if (absl::StripAsciiWhitespace(line).empty() &&
        (!header.has_value() || row.cells.size() == 1)) {
      continue;
    }
    if (!header.has_value()) {
      // Lines of old Macs, of which this row holds all.
      const size_t cr = line.find('\r');
      if (cr < line.size() - 1 && line[cr + 1] != '\n') {
        return text.Error(at, "the lines end in CR alone; make them LF: tr '\\r' '\\n'");
      }
      const absl::StatusOr<Header> found = ReadHeader(line, column);
      if (!found.ok()) return text.Error(at, found.status().message(), found.status().code());
      header = *found;
      if (!header->name.empty() && Numbers(SampleType::kF64, "").Add(header->name).ok()) {
        number = header->name;
      }
      continue;
    }
    if (absl::Status status = AddCell(*header, row, numbers); !status.ok()) {
      return absl::IsOutOfRange(status) ? status : text.Error(at, status.message());
    }
  }
  return header.has_value() ? absl::OkStatus() : text.Error(end, "there is no header");
}

}  // namespace

absl::Status ReadNumbers(const std::string& column, std::vector<Input>& inputs, v1::Spec& spec) {
  std::vector<Text> texts;
  for (Input& input : inputs) {
    const auto timed = TimeLook(input);
    // An input that is no text is not waited for any longer.
    for (const uint64_t bytes : {uint64_t{kBeginningBytes}, UINT64_MAX}) {
      absl::Status status = input.status;
      status.Update(ReadOn(input, bytes));
      status.Update(CheckBeginning(input.name, input.bytes));
      if (!status.ok()) return status;
    }
    texts.push_back({input.name, absl::StripPrefix(input.bytes, kByteOrderMark), input.holder});
  }
  // From the start again with another type where a number is none of the present one.
  SampleType type = SampleType::kI64;
  std::string other;
  for (size_t i = 0; i < inputs.size();) {
    const auto timed = TimeLook(inputs[i]);
    Numbers numbers(type, other);
    absl::Status status = column.empty()
                              ? ReadWords(texts[i], numbers)
                              : ReadColumn(texts[i], column, numbers, inputs[i].header_number);
    if (status.ok()) {
      inputs[i++].Hold(std::move(numbers).Bytes());
    } else if (absl::IsOutOfRange(status)) {
      type = numbers.needed();
      other = std::string(status.message());
      i = 0;
    } else {
      return status;
    }
  }
  spec.set_sample_type(static_cast<v1::SampleType>(InfoOf(type).number));
  return absl::OkStatus();
}

bool LooksLikeNumbers(absl::string_view beginning) {
  const absl::string_view text = absl::StripPrefix(beginning, kByteOrderMark);
  const auto of_numbers = [](char c) {
    return Separates(c) || absl::StrContains("0123456789.-+eE", c);
  };
  return absl::c_all_of(text, of_numbers) && absl::c_any_of(text, absl::ascii_isdigit) &&
         absl::c_any_of(text, Separates);
}

}  // namespace histogram::cli
