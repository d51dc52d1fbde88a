#include "kernels/tuning/tuning_table.h"

#include <histogram/number_text.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace histogram::tuning {
namespace {

constexpr std::string_view kFirstLine = "histogram-tuning 1";
constexpr size_t kFileBytesMax = size_t{1} << 20;

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// The key as it is written: words and values, always all of them and in this order.
std::vector<std::pair<std::string, std::string>> KeyLines(const TuningKey& key) {
  return {{"backend", OneLine(key.backend)},
          {"device", OneLine(key.device)},
          {"driver", OneLine(key.driver)},
          {"build", OneLine(key.build)},
          {"multiprocessors", absl::StrCat(key.multiprocessors)},
          {"mig_profile", OneLine(key.mig_profile)},
          {"mps_share", OneLine(key.mps_share)},
          {"cpu_model", OneLine(key.cpu_model)},
          {"lane_bytes", absl::StrCat(key.lane_bytes)},
          {"lane_payloads", absl::StrCat(key.lane_payloads)}};
}

template <typename Number>
bool ReadNumber(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Goes through the lines of a file; every method fails once anything was not as it must be.
class Reader {
 public:
  explicit Reader(std::string_view text)
      : lines_(absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {}

  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("tuning table, line ", at_ + 1, ": ", std::string(what)));
  }
  // Nothing follows but the empty text after the last line break.
  bool AtEnd() const { return at_ + 1 == lines_.size() && lines_[at_].empty(); }
  const std::string* Line() const { return at_ < lines_.size() ? &lines_[at_] : nullptr; }
  void Advance() { ++at_; }

  // The value of the line "word value".
  absl::StatusOr<std::string> Value(const std::string& word) {
    const std::string* line = Line();
    const std::string start = word + ' ';
    if (line == nullptr || line->compare(0, start.size(), start) != 0) {
      return Error(absl::StrCat("expected '", word, "'"));
    }
    std::string value = line->substr(start.size());
    Advance();
    return value;
  }

 private:
  std::vector<std::string> lines_;
  size_t at_ = 0;
};

absl::Status ReadKey(Reader& reader, TuningKey& key) {
  const auto text = [&reader](const char* word, std::string& part) {
    absl::StatusOr<std::string> value = reader.Value(word);
    if (!value.ok()) return value.status();
    part = *std::move(value);
    return absl::OkStatus();
  };
  const auto number = [&reader](const char* word, auto& part) {
    const absl::StatusOr<std::string> value = reader.Value(word);
    if (!value.ok()) return value.status();
    if (!ReadNumber(*value, part)) {
      return reader.Error(absl::StrCat("before it, ", word, " is not a number"));
    }
    return absl::OkStatus();
  };
  for (const absl::Status& status :
       {text("backend", key.backend), text("device", key.device), text("driver", key.driver),
        text("build", key.build), number("multiprocessors", key.multiprocessors),
        text("mig_profile", key.mig_profile), text("mps_share", key.mps_share),
        text("cpu_model", key.cpu_model), number("lane_bytes", key.lane_bytes),
        number("lane_payloads", key.lane_payloads)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// "row TYPE BINS BYTES PAYLOADS KERNEL COST GBPS"
bool ReadRow(const std::string& value, KernelChoice& row) {
  const std::vector<std::string> words = absl::StrSplit(value, ' ');
  if (words.size() != 7 || words[0] != "uint8" || words[4].empty()) return false;
  row.kernel = words[4];
  return ReadNumber(words[1], row.bin_count_max) && ReadNumber(words[2], row.payload_bytes_max) &&
         ReadNumber(words[3], row.payloads_max) && ReadNumber(words[5], row.cost_ns) &&
         ReadNumber(words[6], row.gigabytes_per_second) &&
         std::isfinite(row.gigabytes_per_second) && row.gigabytes_per_second >= 0;
}

absl::StatusOr<TuningTable> ReadTable(Reader& reader) {
  TuningTable table;
  if (absl::Status status = ReadKey(reader, table.key); !status.ok()) return status;
  while (reader.Line() != nullptr && reader.Line()->compare(0, 4, "row ") == 0) {
    KernelChoice row;
    if (!ReadRow(reader.Line()->substr(4), row)) return reader.Error("malformed row");
    row.backend = table.key.backend;
    table.rows.push_back(std::move(row));
    reader.Advance();
  }
  const absl::StatusOr<std::string> count = reader.Value("rows");
  if (!count.ok()) return count.status();
  if (*count != absl::StrCat(table.rows.size())) return reader.Error("rows are missing before it");
  return table;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than ", kFileBytesMax, " bytes: not a tuning table"));
  }
  return text;
}

}  // namespace

std::string FormatTuningTables(const std::vector<TuningTable>& tables) {
  std::string text = absl::StrCat(std::string(kFirstLine), "\n");
  for (const TuningTable& table : tables) {
    for (const auto& [word, value] : KeyLines(table.key)) {
      absl::StrAppend(&text, word, " ", value, "\n");
    }
    for (const KernelChoice& row : table.rows) {
      absl::StrAppend(&text, "row uint8 ", row.bin_count_max, " ", row.payload_bytes_max, " ",
                      row.payloads_max, " ", row.kernel, " ", row.cost_ns, " ",
                      NumberText(row.gigabytes_per_second), "\n");
    }
    absl::StrAppend(&text, "rows ", table.rows.size(), "\n");
  }
  return text;
}

absl::StatusOr<std::vector<TuningTable>> ParseTuningTables(std::string_view text) {
  Reader reader(text);
  if (reader.Line() == nullptr || *reader.Line() != kFirstLine) {
    return reader.Error(absl::StrCat("expected '", std::string(kFirstLine), "'"));
  }
  reader.Advance();
  std::vector<TuningTable> tables;
  while (!reader.AtEnd()) {
    absl::StatusOr<TuningTable> table = ReadTable(reader);
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  return tables;
}

std::string FirstDifference(const TuningKey& a, const TuningKey& b) {
  const auto lines_a = KeyLines(a), lines_b = KeyLines(b);
  for (size_t i = 0; i < lines_a.size(); ++i) {
    if (lines_a[i] != lines_b[i]) return lines_a[i].first;
  }
  return "";
}

std::string CacheFileName(const TuningKey& key) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const auto& [word, value] : KeyLines(key)) {
    for (const char c : absl::StrCat(word, " ", value, "\n")) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return absl::StrCat(key.backend, "-", absl::Hex(hash, absl::kZeroPad16), ".tuning");
}

absl::StatusOr<std::vector<KernelChoice>> LoadFromCache(const std::string& directory,
                                                        const TuningKey& key) {
  const std::string path = absl::StrCat(directory, "/", CacheFileName(key));
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<TuningTable>> tables = ParseTuningTables(*text);
  if (!tables.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", tables.status().message()));
  }
  if (tables->size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", tables->size(), " tables; a cache file has 1"));
  }
  if (const std::string part = FirstDifference(tables->front().key, key); !part.empty()) {
    return absl::NotFoundError(absl::StrCat(path, " was made for another ", part));
  }
  return std::move(tables->front().rows);
}

absl::Status SaveToCache(const std::string& directory, const TuningTable& table) {
  std::error_code error;
  std::filesystem::create_directory(directory, error);
  const std::string path = absl::StrCat(directory, "/", CacheFileName(table.key));
  const std::string temporary = absl::StrCat(path, ".", getpid());
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << FormatTuningTables({table});
    file.close();
    if (!file) {
      std::filesystem::remove(temporary, error);
      return absl::UnavailableError(absl::StrCat("cannot write ", temporary));
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (!error) return absl::OkStatus();
  const std::string why = error.message();
  std::filesystem::remove(temporary, error);
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", why));
}

absl::StatusOr<std::vector<TuningTable>> LoadTuningFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  absl::StatusOr<std::vector<TuningTable>> tables = ParseTuningTables(*text);
  if (!tables.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", tables.status().message()));
  }
  return tables;
}

}  // namespace histogram::tuning
