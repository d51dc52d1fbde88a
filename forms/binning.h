// A spec's binning: as the library's, and how its bins are shown. Thread-safe: no state.
#ifndef HISTOGRAM_FORMS_BINNING_H_
#define HISTOGRAM_FORMS_BINNING_H_

#include <histogram/binning.h>
#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "histogram/v1/histogram.pb.h"

namespace histogram {

// As the API calls it: "FLOAT32".
std::string ApiName(SampleType type);

// The binning of samples of that type. With a range that the data is to give: over [0, 1]. The
// error's field is below spec.binning, and empty if it is spec.binning itself; its message starts
// with the field.
Result<Binning> BinningOf(const v1::Binning& binning, SampleType type,
                          uint32_t bin_count_max = kBinCountMax);

// The kind of binning: values, even, edges, alphabet, byte_table.
std::string BinningKind(const v1::Spec& spec);
// Whether the bins are groups of symbols, which no values lie between.
bool BinsAreSymbols(const v1::Spec& spec);
// Whether the last bin also holds its upper edge.
bool LastEdgeClosed(const v1::Spec& spec);
// The edges, one more than bins, of an answer that has none (a bin for each value, an alphabet):
// bin i holds the values v with edge_i <= v < edge_i+1.
std::vector<double> EdgesByValue(const v1::Spec& spec, size_t bins);

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_BINNING_H_
