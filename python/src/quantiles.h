// Quantiles of an array with numpy's arithmetic.
#ifndef HISTOGRAM_PYTHON_QUANTILES_H_
#define HISTOGRAM_PYTHON_QUANTILES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace histogram::python {

// The quantiles at `shares`, each in [0, 1], by numpy's method "linear"; all NaN if a sample is.
// `weak`: those of f32 are computed in float. Without a value where the samples are not contiguous.
// Throws for f16 and bf16. REQUIRES: there are samples, whole ones.
std::optional<std::vector<double>> Quantiles(const nanobind::handle& samples,
                                             std::string_view type_name,
                                             const std::vector<double>& shares, bool weak,
                                             uint32_t threads);

// The median, as Quantiles.
std::optional<double> Median(const nanobind::handle& samples, std::string_view type_name,
                             uint32_t threads);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_QUANTILES_H_
