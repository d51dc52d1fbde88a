// A spec from the query string of a URL. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_QUERY_H_
#define HISTOGRAM_FORMS_QUERY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram {

// "bins=16&range=0:256&type=f32": names and values of the command line's options, each at most
// once, percent-encoded ('+' means itself). Besides: "windows=SAMPLES:STEP", "channels=N" and
// "range=rows" for Spec.rows. INVALID_ARGUMENT: a parameter's name, a colon, and what
// is wrong.
absl::StatusOr<v1::Spec> SpecFromQuery(absl::string_view query);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_QUERY_H_
