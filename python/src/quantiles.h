// Quantiles of an array with numpy's arithmetic.
#ifndef HISTOGRAM_PYTHON_QUANTILES_H_
#define HISTOGRAM_PYTHON_QUANTILES_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace histogram::python {

// Of rows of `length` samples: the quantiles at `shares`, each in [0, 1], by numpy's method
// "linear"; NaN where a sample of the row is. Writes them to `out`, an array of float64 with a row
// of results for each share. `weak`: those of f32 are computed in float. Returns false where the
// samples are not contiguous. Throws for f16 and bf16.
bool Quantiles(const nanobind::handle& samples, std::string_view type_name, size_t length,
               const std::vector<double>& shares, bool weak, const nanobind::handle& out,
               uint32_t threads);

// The medians, as Quantiles.
bool Median(const nanobind::handle& samples, std::string_view type_name, size_t length,
            const nanobind::handle& out, uint32_t threads);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_QUANTILES_H_
