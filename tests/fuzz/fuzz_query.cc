// The query string of an HTTP request: a spec, or an error that names a parameter. Its parts in
// another order and percent-encoded mean the same, and the request's check takes or refuses what
// comes of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "forms/query.h"
#include "forms/report.h"
#include "kernels/error.h"
#include "server/request/query.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

namespace v1 = histogram::v1;

// Each byte of a text without percent signs as %XX.
std::string Encoded(absl::string_view text) {
  std::string encoded;
  for (const char byte : text) {
    absl::StrAppend(&encoded, "%", absl::BytesToHexString(absl::string_view(&byte, 1)));
  }
  return encoded;
}

// The same query, its parts from the last to the first and percent-encoded.
std::string OtherWay(absl::string_view query) {
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    if (part.find('%') != absl::string_view::npos) {
      parts.emplace_back(part);
      continue;
    }
    const size_t equals = part.find('=');
    std::string other = Encoded(part.substr(0, equals));
    if (equals != absl::string_view::npos) {
      absl::StrAppend(&other, "=", Encoded(part.substr(equals + 1)));
    }
    parts.push_back(std::move(other));
  }
  std::reverse(parts.begin(), parts.end());
  return absl::StrJoin(parts, "&");
}

void CheckError(const absl::Status& status) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument, status.ToString());
  const absl::string_view message = status.message();
  const absl::string_view name = message.substr(0, message.find(':'));
  FUZZ_CHECK(!name.empty() && name.size() < message.size(), status.ToString());
  FUZZ_CHECK(std::all_of(name.begin(), name.end(), absl::ascii_islower), status.ToString());
  FUZZ_CHECK(histogram::SafeText(message) == message, status.ToString());
  FUZZ_CHECK(message.size() <= 500, status.ToString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string query(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<v1::Spec> spec = histogram::SpecFromQuery(query);
  const absl::StatusOr<v1::Spec> other = histogram::SpecFromQuery(OtherWay(query));
  FUZZ_CHECK(spec.ok() == other.ok(), absl::StrCat(query, "\n", OtherWay(query)));
  if (!spec.ok()) {
    CheckError(spec.status());
    return 0;
  }
  const std::string bytes = spec->SerializeAsString();
  FUZZ_CHECK(bytes == other->SerializeAsString(), query);
  const auto made = histogram::server::MakeQuery(bytes, histogram::server::QueryLimits{});
  if (made.ok()) {
    FUZZ_CHECK((*made)->binning.bin_count() >= 1, query);
    return 0;
  }
  FUZZ_CHECK(made.status().code() == absl::StatusCode::kInvalidArgument, made.status().ToString());
  FUZZ_CHECK(!histogram::GetErrorDetail(made.status()).field.empty(), made.status().ToString());
  return 0;
}
