// A spec from options as people write them: of a command line or of a query. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_OPTIONS_H_
#define HISTOGRAM_FORMS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram {

struct SpecOptions {
  std::optional<uint32_t> bins = std::nullopt;
  std::string range = {};      // LO:HI
  std::string edges = {};      // a,b,c
  std::string alphabet = {};   // FIRST:COUNT[:PER_BIN]
  std::string quantiles = {};  // a,b,c
  bool statistics = false;
};

// INVALID_ARGUMENT for a bad option: its name behind `prefix`, a colon, and what is wrong.
absl::StatusOr<v1::Spec> SpecFromText(const SpecOptions& options, const std::string& prefix);

// The start of what was given, as a message may show it.
std::string Shown(absl::string_view text);

// Parses all of `text` as one finite number.
absl::StatusOr<double> ParseNumber(absl::string_view text);
// The digits of the integer whose magnitude a number's text writes, with a point and an exponent or
// without; nothing where it is none.
std::optional<std::string> IntegerOf(absl::string_view text);
// False where `text` writes an integer that `value`, the double nearest to it, is not. Of an
// integer beyond 64 bits, and unless `exactly`, the digits that the text writes before its zeros
// are all that must be right: programs write doubles so.
bool IsHeld(absl::string_view text, double value, bool exactly);
// Parses numbers separated by commas.
absl::StatusOr<std::vector<double>> ParseNumbers(absl::string_view text);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_OPTIONS_H_
