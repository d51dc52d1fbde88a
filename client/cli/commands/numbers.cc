#include "absl/strings/numbers.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/count.h"
#include "client/cli/commands/number_list.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr size_t kTextBytes = size_t{1} << 20;
constexpr size_t kLineBytesMax = size_t{64} << 20;
constexpr size_t kBeginningBytes = 4096;  // to tell text from other files
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr absl::string_view kSeparators = ",\t;";  // of cells

// Reads an input in blocks. The next block begins with what its user left of the last one.
class Reader {
 public:
  Reader(const Input& input, InputFile file, absl::Time deadline)
      : input_(input), file_(std::move(file)), deadline_(deadline) {}

  // The next block; empty at the end.
  absl::StatusOr<absl::string_view> Next() {
    line_ += static_cast<uint64_t>(std::count(block_.begin(), block_.begin() + used_, '\n'));
    block_.erase(0, static_cast<size_t>(used_));
    used_ = 0;
    if (ended_) return absl::string_view(block_);
    const size_t before = block_.size();
    if (before > kLineBytesMax) {
      return Error(block_.data(),
                   absl::StrCat("a line, a word or what quotes enclose is longer than ",
                                FormatBytes(kLineBytesMax)));
    }
    block_.resize(before + kTextBytes);
    const auto bytes =
        ReadFully(*file_, absl::MakeSpan(block_).subspan(before), input_.name, deadline_);
    if (!bytes.ok()) return bytes.status();
    block_.resize(before + *bytes);
    ended_ = *bytes < kTextBytes;
    if (line_ > 0) return absl::string_view(block_);
    line_ = 1;
    if (absl::StartsWith(block_, "\xFF\xFE") || absl::StartsWith(block_, "\xFE\xFF")) {
      return Error(block_.data(), "the text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8");
    }
    if (absl::StartsWith(block_, "\x93NUMPY")) {
      return Error(block_.data(), "a .npy file is no text; leave out --numbers and --column");
    }
    if (absl::StrContains(absl::string_view(block_).substr(0, kBeginningBytes), '\0')) {
      return Error(block_.data(),
                   "this is no text but binary, compressed or UTF-16; unpack or convert it before");
    }
    if (absl::StartsWith(block_, kByteOrderMark)) block_.erase(0, kByteOrderMark.size());
    return absl::string_view(block_);
  }

  // Whether nothing follows the present block.
  bool ended() const { return ended_; }
  // The block's user has done with it up to `end`.
  void Use(const char* end) { used_ = end - block_.data(); }

  // Names the place of `at` in the present block: "FILE, line 3: ".
  absl::Status Error(const char* at, absl::string_view message,
                     absl::StatusCode code = absl::StatusCode::kFailedPrecondition) const {
    const auto line = line_ + static_cast<uint64_t>(std::count(block_.data(), at, '\n'));
    return absl::Status(code, absl::StrCat(input_.name, ", line ", line, ": ", message));
  }

 private:
  const Input& input_;
  const InputFile file_;
  const absl::Time deadline_;
  std::string block_;
  ptrdiff_t used_ = 0;
  uint64_t line_ = 0;  // at the beginning of the block
  bool ended_ = false;
};

absl::Status ReadWords(Reader& reader, Numbers& numbers) {
  bool first = true;
  while (true) {
    const absl::StatusOr<absl::string_view> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->empty()) return absl::OkStatus();
    const char* at = block->data();
    // The last word may go on in the next block. It ends in what was read last, if at all.
    const auto last = block->rbegin() + static_cast<ptrdiff_t>(std::min(block->size(), kTextBytes));
    const char* end = at + block->size();
    if (!reader.ended()) {
      const auto separator = std::find_if(block->rbegin(), last, Separates);
      end = separator == last ? at : separator.base();
    }
    reader.Use(end);
    while (true) {
      while (at < end && Separates(*at)) ++at;
      if (at == end) break;
      const char* const begin = at;
      at = numbers.AddShort(begin, end);
      if (at == nullptr) {
        at = std::find_if(begin, end, Separates);
        const absl::Status status = numbers.Add({begin, static_cast<size_t>(at - begin)});
        if (!status.ok()) {
          const bool header = first && absl::ascii_isalpha(static_cast<unsigned char>(*begin));
          return reader.Error(
              begin, absl::StrCat(status.message(),
                                  header ? "; --column NAME counts what is below a header" : ""));
        }
      }
      first = false;
    }
  }
}

// A row of a table: its cells without quotes and blanks around them, and where it ends: at a line
// end, or at the end of what was read, perhaps within quotes.
struct Row {
  std::vector<absl::string_view> cells;
  std::deque<std::string> unquoted;  // hold the cells with quotes
  const char* end = nullptr;
  bool open = false;
};

void ReadRow(char separator, const char* at, const char* end, Row& row) {
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
  Row cells;
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

absl::Status AddCell(const Header& header, const Row& row, Numbers& numbers) {
  const absl::string_view cell = header.index < row.cells.size() ? row.cells[header.index] : "";
  absl::Status status = cell.empty() ? numbers.AddMissing() : numbers.Add(cell);
  const size_t cells = row.cells.size() - (row.cells.back().empty() ? 1 : 0);  // but an empty last
  if (!status.ok() || cells <= header.columns) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("the row has more cells than the ", header.columns, " of the header"));
}

// Sets `number` to the column's name where that is a number.
absl::Status ReadColumn(Reader& reader, const std::string& column, Numbers& numbers,
                        std::string& number) {
  std::optional<Header> header;
  Row row;
  while (true) {
    const absl::StatusOr<absl::string_view> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->empty()) {
      return header.has_value() ? absl::OkStatus()
                                : reader.Error(block->data(), "there is no header");
    }
    const char* at = block->data();
    const char* const end = at + block->size();
    while (at < end) {
      const char* const begin = at;
      const char separator =
          header.has_value()
              ? header->separator
              : SeparatorOf({begin, static_cast<size_t>(std::find(begin, end, '\n') - begin)});
      ReadRow(separator, begin, end, row);
      if (row.end == end && !reader.ended()) break;
      if (row.open) return reader.Error(begin, "a quote is not closed");
      const absl::string_view text(begin, static_cast<size_t>(row.end - begin));
      at = row.end + (row.end < end ? 1 : 0);
      // Of a table's rows one of empty cells between tabs is no blank line.
      if (absl::StripAsciiWhitespace(text).empty() &&
          (!header.has_value() || row.cells.size() == 1)) {
        continue;
      }
      if (!header.has_value()) {
        // Lines of old Macs, of which this row holds all.
        const size_t cr = text.find('\r');
        if (cr < text.size() - 1 && text[cr + 1] != '\n') {
          return reader.Error(begin, "the lines end in CR alone; make them LF: tr '\\r' '\\n'");
        }
        const absl::StatusOr<Header> found = ReadHeader(text, column);
        if (!found.ok()) {
          return reader.Error(begin, found.status().message(), found.status().code());
        }
        header = *found;
        if (Numbers().Add(header->name).ok()) number = header->name;
        continue;
      }
      if (absl::Status status = AddCell(*header, row, numbers); !status.ok()) {
        return reader.Error(begin, status.message());
      }
    }
    reader.Use(at);
  }
}

}  // namespace

absl::Status ReadNumbers(const std::string& column, absl::Time deadline, std::vector<Input>& inputs,
                         v1::Spec& spec) {
  std::vector<Numbers> all(inputs.size());
  bool real = false, beyond_i64 = false, negative = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto timed = TimeLook(inputs[i]);
    absl::StatusOr<InputFile> file = OpenInput(inputs[i]);
    if (!file.ok()) return file.status();
    Reader reader(inputs[i], *std::move(file), deadline);
    absl::Status status = column.empty()
                              ? ReadWords(reader, all[i])
                              : ReadColumn(reader, column, all[i], inputs[i].header_number);
    if (!status.ok()) return status;
    real |= all[i].kind() == Numbers::Kind::kF64;
    beyond_i64 |= all[i].kind() == Numbers::Kind::kU64;
    negative |= all[i].has_negative();
  }
  real |= beyond_i64 && negative;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (absl::Status status = real ? all[i].ToReal("a number of another input") : absl::OkStatus();
        !status.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(inputs[i].name, ": ", status.message()));
    }
    inputs[i].bytes = std::move(all[i]).Bytes();
  }
  spec.set_sample_type(real         ? v1::SAMPLE_TYPE_FLOAT64
                       : beyond_i64 ? v1::SAMPLE_TYPE_UINT64
                                    : v1::SAMPLE_TYPE_INT64);
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
