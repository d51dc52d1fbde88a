// A spec from options as people write them: of a command line or of a query. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_OPTIONS_H_
#define HISTOGRAM_FORMS_OPTIONS_H_

#include <histogram/sample_type.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram {

// A kind of binning that one text says. It excludes `bins`, and those before it in the list.
struct BinningOption {
  const char* name;
  const char* form;
  const char* help;
  absl::Status (*set)(const std::string& option, const std::string& text, v1::Binning& binning);
};
absl::Span<const BinningOption> BinningOptions();

struct SpecOptions {
  std::optional<uint32_t> bins = std::nullopt;
  std::string range = {};  // LO:HI
  // The text of each of BinningOptions(), empty if it is not given.
  std::vector<std::string> binnings = std::vector<std::string>(BinningOptions().size());
  std::string quantiles = {};  // a,b,c
  bool statistics = false;
};

// INVALID_ARGUMENT for a bad option: its name behind `prefix`, a colon, and what is wrong.
absl::StatusOr<v1::Spec> SpecFromText(const SpecOptions& options, const std::string& prefix);

// Whether bins without a range are those of all of the type's values, not of the data: u8 and i8.
bool HasWholeRange(SampleType type);

// Names the API's fields in a message by the options that set them: "range" or, with `parts`,
// "range: LO", behind `prefix`.
std::string ByOption(const std::string& message, const std::string& prefix, bool parts);

// The start of what was given, as a message may show it; plain, or 'in quotes'.
std::string Shown(absl::string_view text);
std::string Quoted(absl::string_view text);

// Parses all of `text` as one finite number.
absl::StatusOr<double> ParseNumber(absl::string_view text);
// The digits of the integer whose magnitude a number's text writes, with a point and an exponent or
// without; nothing where it is none.
std::optional<std::string> IntegerOf(absl::string_view text);
// False where `text` writes an integer that `value`, the double nearest to it, is not. Of an
// integer beyond 64 bits, or with a point or an exponent, the digits that the text writes before
// its zeros are all that must be right: programs write doubles so.
bool IsHeld(absl::string_view text, double value);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_OPTIONS_H_
