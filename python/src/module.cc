// histogram._native: the library's counting, for arrays that histogram/ (Python) has looked at.
//
// Arrays come by the buffer protocol as plain contiguous bytes in native order; their type is an
// argument, since Python has no format for bf16. The interpreter lock is released while there is
// enough to count.
#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/rows.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>
#include <histogram/values.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/linspace.h"
#include "kernels/order_statistics.h"
#include "kernels/plan_data.h"
#include "kernels/plan_in_use.h"
#include "python/cuda/plugin.h"
#include "python/src/buffer.h"
#include "python/src/counting.h"
#include "python/src/even_counter.h"
#include "python/src/quantiles.h"

namespace histogram::python {
namespace {

// Of bins: the library's own limit remains.
constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();

nb::object PlanBetween(const Result<Binning>& binning, std::string_view type) {
  if (!binning.ok()) return nb::none();
  return nb::cast(std::make_unique<PlanInUse>(*Plan::Direct(*binning, TypeNamed(type))));
}

// None where edges are not finite or do not increase, or there are too many.
nb::object MakePlan(const nb::handle& edges, std::string_view type) {
  const std::optional<Buffer> buffer = Buffer::Contiguous(edges);
  if (!buffer.has_value()) throw nb::value_error("edges: must be contiguous float64");
  return PlanBetween(Binning::Edges(buffer->as<const double>(), kNoLimit), type);
}

// numpy's even edges.
Result<Binning> EvenBins(double first, double last, uint32_t bins, std::string_view arithmetic,
                         std::string_view edges) {
  return Binning::EvenIn({.arithmetic = TypeNamed(arithmetic), .edges = TypeNamed(edges)}, bins,
                         first, last, kNoLimit);
}

// None where edges are not finite or do not increase.
nb::object MakeEvenPlan(double first, double last, uint32_t bins, std::string_view arithmetic,
                        std::string_view edges, std::string_view type) {
  return PlanBetween(EvenBins(first, last, bins, arithmetic, edges), type);
}

// The edges as bytes of f64, or of f32 for narrower edges.
nb::object EvenEdges(double first, double last, uint32_t bins, std::string_view arithmetic,
                     std::string_view edges) {
  const Result<Binning> even = EvenBins(first, last, bins, arithmetic, edges);
  if (!even.ok()) return nb::none();
  const size_t count = size_t{bins} + 1;
  const auto made = [&]<typename Edge>(Edge) -> nb::object {
    nb::bytes bytes(nullptr, count * sizeof(Edge));  // to be filled: it has no other owner
    void* const memory = PyBytes_AsString(bytes.ptr());
    even->ComputeEdges(std::span<Edge>(static_cast<Edge*>(memory), count));
    return bytes;
  };
  return TypeNamed(edges) == SampleType::kF64 ? made(0.0) : made(0.0F);
}

// (counters; below, above, nan), or None where the samples are not contiguous.
nb::object CountSamples(PlanInUse& plan, const nb::handle& samples, uint32_t threads) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) return nb::none();
  Counted its = Count(plan, *from, threads);
  return nb::make_tuple(std::move(its.counters), its.below, its.above, its.nan);
}

// Rows of counts: those of each bin; below, above and nan.
struct RowSink {
  std::span<int64_t> counts, outside;

  void Take(const CountedRow& row) const {
    CheckSum(row.counters, row.samples);
    const std::span<const uint64_t> past = OutsideOf(row.counters);
    const std::span<const uint64_t> bins = row.counters.first(row.counters.size() - past.size());
    std::copy(bins.begin(), bins.end(), counts.begin() + row.row * bins.size());
    std::copy(past.begin(), past.end(), outside.begin() + row.row * past.size());
  }
};

// The cut that the arguments ask for. Throws unless `samples` samples can be cut so, and the sink
// has a place for each row.
struct Rows {
  RowCut cut;
  uint64_t rows;

  Rows(uint64_t samples, uint64_t bins, const RowSink& sink, uint64_t window, uint64_t step,
       uint32_t channels)
      : cut{.channels = channels} {
    if (channels == 0) throw nb::value_error("channels: 0; must be a whole number >= 1");
    if (window > 0) {
      cut.kind = RowCut::Kind::kWindows;
      cut.window = window;
      cut.step = step;
    }
    const Result<uint64_t> found = cut.Stretches(samples);
    if (!found.ok()) throw nb::value_error(found.error().message.c_str());
    rows = *found * channels;
    if (sink.counts.size() != rows * bins || sink.outside.size() != rows * 3) {
      throw nb::value_error("counts and outside: must have as many rows as the samples");
    }
  }
};

// A row of counts for each channel of each stretch (RowCut), and of (below, above, nan).
void CountSampleRows(PlanInUse& in_use, const nb::handle& samples, const nb::handle& counts,
                     const nb::handle& outside, uint32_t threads, uint64_t window, uint64_t step,
                     uint32_t channels) {
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) throw nb::value_error("samples: must be contiguous");
  const Plan plan = PlanFor(in_use, from->size());
  const Buffer counts_buffer = Buffer::Writable(counts), outside_buffer = Buffer::Writable(outside);
  CheckWhole(from->size(), plan.type());
  const RowSink sink = {counts_buffer.as<int64_t>(), outside_buffer.as<int64_t>()};
  const Rows rows(from->size() / SampleBytes(plan.type()), plan.bin_count(), sink, window, step,
                  channels);
  Unlocked(from->size(), [&] {
    CountRows(from->bytes(), plan, rows.cut, threads,
              [&](const CountedRow& row) { sink.Take(row); });
  });
}

// Up to here doubles hold all integers.
constexpr double kWholeMax = 0x1p53;

// The plan of a row with this extent and so many samples. Writes its edges, which are numpy's: as
// floats for types of floats of up to 32 bits, else as doubles. nullopt, and a first edge that is
// NaN, where numpy has to make them.
template <typename Edge>
std::optional<Plan> PlanOver(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                             std::span<Edge> edges) {
  const internal::FloatMode mode;
  edges[0] = std::numeric_limits<Edge>::quiet_NaN();
  if (!extent.has_value() || !extent->finite) return std::nullopt;
  double first = extent->least, last = extent->greatest;
  // A last edge of 0 would be 0.0 or -0.0, as numpy's order of comparisons has it.
  if (last == 0 && extent->negative_zero) return std::nullopt;
  if (KindOf(type) != SampleKind::kFloat && std::max(-first, last) > kWholeMax) return std::nullopt;
  SampleType its = std::is_same_v<Edge, float> ? SampleType::kF32 : SampleType::kF64;
  if (type == SampleType::kF16) its = type;
  if (first == last) {
    first = internal::RoundedTo(its, first - 0.5);
    last = internal::RoundedTo(its, last + 0.5);
  }
  const Result<Binning> binning =
      Binning::EvenIn({its, its}, static_cast<uint32_t>(edges.size() - 1), first, last, kNoLimit);
  if (!binning.ok()) return std::nullopt;
  binning->ComputeEdges(edges);
  // Callers read the counters below, above and NaN; a plan of bytes has none.
  const Result<Plan> direct = Plan::Direct(*binning, type);
  return direct->TablesPay(samples) ? *Plan::Make(*binning, type) : *direct;
}

// As CountSampleRows, over each row's own range, with a row of edges for each (PlanOver).
void CountOwnRanges(const nb::handle& samples, std::string_view type_name, uint32_t bins,
                    const nb::handle& counts, const nb::handle& outside, const nb::handle& edges,
                    uint32_t threads, uint64_t window, uint64_t step, uint32_t channels) {
  const SampleType type = TypeNamed(type_name);
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) throw nb::value_error("samples: must be contiguous");
  const Buffer counts_buffer = Buffer::Writable(counts), outside_buffer = Buffer::Writable(outside);
  const Buffer edges_buffer = Buffer::Writable(edges);
  CheckWhole(from->size(), type);
  const RowSink sink = {counts_buffer.as<int64_t>(), outside_buffer.as<int64_t>()};
  const Rows rows(from->size() / SampleBytes(type), bins, sink, window, step, channels);
  const auto count = [&]<typename Edge>(std::span<Edge> all_edges) {
    const size_t size = size_t{bins} + 1;
    if (all_edges.size() != rows.rows * size) {
      throw nb::value_error("edges: must have as many rows as the samples");
    }
    const auto plan_of = [&](uint64_t row, const std::optional<Extent>& extent, uint64_t its) {
      return PlanOver(extent, type, its, all_edges.subspan(row * size, size));
    };
    Unlocked(from->size(), [&] {
      CountRows(from->bytes(), type, bins, plan_of, rows.cut, threads,
                [&](const CountedRow& row) { sink.Take(row); });
    });
  };
  const bool narrow = edges_buffer.size() == rows.rows * (size_t{bins} + 1) * sizeof(float);
  return narrow ? count(edges_buffer.as<float>()) : count(edges_buffer.as<double>());
}

// Of each row of `length` samples writes those at the ranks (int64, ascending) to `out`, an array
// of the samples' type with a row of results for each rank.
void OrderStatistics(const nb::handle& samples, std::string_view type_name, size_t length,
                     const nb::handle& ranks, const nb::handle& out, uint32_t threads) {
  const SampleType type = TypeNamed(type_name);
  const size_t size = SampleBytes(type);
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) throw nb::value_error("samples: must be contiguous");
  const std::optional<Buffer> at = Buffer::Contiguous(ranks);
  if (!at.has_value()) throw nb::value_error("ranks: must be contiguous");
  const Buffer to = Buffer::Writable(out);
  if (length == 0 || from->size() % (length * size) != 0) {
    throw nb::value_error("length: must be that of whole rows");
  }
  const std::span<const uint64_t> wanted = at->as<const uint64_t>();
  if (!std::is_sorted(wanted.begin(), wanted.end()) ||
      (!wanted.empty() && wanted.back() >= length)) {
    throw nb::value_error("ranks: must ascend, and be less than the length of a row");
  }
  if (to.size() != from->size() / length * wanted.size()) {
    throw nb::value_error("out: must have a place for each rank of each row");
  }
  Unlocked(from->size(), [&] {
    internal::SamplesAtRanksOfRows(from->bytes(), type, length, wanted, threads,
                                   to.as<std::byte>());
  });
}

// (least, greatest, whether all are finite, whether the greatest is 0 and a sample -0.0), or None
// where none is finite.
nb::object ExtentOf(const nb::handle& samples, std::string_view type_name) {
  const SampleType type = TypeNamed(type_name);
  const std::optional<Buffer> from = Buffer::Contiguous(samples);
  if (!from.has_value()) throw nb::value_error("samples: must be contiguous");
  CheckWhole(from->size(), type);
  std::optional<Extent> extent;
  Unlocked(from->size(), [&] { extent = FindExtent(from->bytes(), type); });
  if (!extent.has_value()) return nb::none();
  return nb::make_tuple(extent->least, extent->greatest, extent->finite, extent->negative_zero);
}

// The bits of bf16 samples as numpy takes them; the memory stays the producer's.
using BfloatArray = nb::ndarray<nb::ro, nb::device::cpu>;
nb::ndarray<nb::numpy, const uint16_t> BfloatBits(const BfloatArray& array) {
  if (array.dtype() !=
      nb::dlpack::dtype{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}) {
    throw nb::type_error("array: must be of bfloat16");
  }
  std::vector<size_t> shape(array.ndim());
  std::vector<int64_t> strides(array.ndim());
  for (size_t i = 0; i < array.ndim(); ++i) {
    shape[i] = array.shape(i);
    strides[i] = array.stride(i);
  }
  return nb::ndarray<nb::numpy, const uint16_t>(static_cast<const uint16_t*>(array.data()),
                                                array.ndim(), shape.data(), nb::cast(array),
                                                strides.data());
}

using DeviceNdarray = nb::ndarray<nb::ro, nb::device::cuda>;

std::string KindOf(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  const std::string bits = std::to_string(type.bits);
  if (type.lanes != 1) return "of " + std::to_string(type.lanes) + " lanes";
  switch (code) {
    case nb::dlpack::dtype_code::Int:
      return "i" + bits;
    case nb::dlpack::dtype_code::UInt:
      return "u" + bits;
    case nb::dlpack::dtype_code::Float:
      return "f" + bits;
    case nb::dlpack::dtype_code::Bfloat:
      return "bf" + bits;
    case nb::dlpack::dtype_code::Bool:
      return "u" + bits;
    default:
      return "with DLPack's code " + std::to_string(type.code);
  }
}

// What DLPack tells of an array in a GPU's memory: its address, its type's name in the library (or
// else DLPack's), shape, strides in samples, the device, and what keeps the memory.
nb::tuple DeviceArrayOf(const DeviceNdarray& array) {
  nb::list shape, strides;
  for (size_t i = 0; i < array.ndim(); ++i) {
    shape.append(array.shape(i));
    strides.append(array.stride(i));
  }
  // An array that came as a capsule has no object of Python that would keep its memory.
  nb::capsule owner(new DeviceNdarray(array),
                    [](void* kept) noexcept { delete static_cast<DeviceNdarray*>(kept); });
  return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()),
                        nb::str(KindOf(array.dtype()).c_str()), nb::tuple(shape),
                        nb::tuple(strides), array.device_id(), owner);
}

// Calls the plugin's histogram_cuda_count_and_read, which lies at `function`, over the range of a
// HistogramRange, or of none if `arithmetic` is negative. Returns (counts as int64 in bytes; below,
// above, nan), or None where even bins need tables.
nb::object CountOnDevice(uintptr_t function, uintptr_t counter, double lower, double upper,
                         int arithmetic, uintptr_t samples, uint64_t count, uintptr_t stream,
                         uint32_t bins) {
  const auto call = reinterpret_cast<decltype(&histogram_cuda_count_and_read)>(function);
  const HistogramRange range = {lower, upper, static_cast<uint32_t>(arithmetic)};
  const nb::bytes bytes(nullptr, bins * sizeof(int64_t));  // to be filled: it has no other owner
  auto* const counts = reinterpret_cast<int64_t*>(PyBytes_AsString(bytes.ptr()));
  int64_t outside[3] = {};
  char error[512];
  int failed = 0;
  {
    const nb::gil_scoped_release release;
    failed = call(reinterpret_cast<HistogramCounter*>(counter), arithmetic < 0 ? nullptr : &range,
                  reinterpret_cast<const void*>(samples), count, reinterpret_cast<void*>(stream),
                  counts, outside, error, sizeof(error));
  }
  if (failed == -3) return nb::none();
  if (failed != 0) throw std::runtime_error(error);
  return nb::make_tuple(bytes, outside[0], outside[1], outside[2]);
}

nb::object InFloatMode(const nb::callable& function, const nb::args& arguments) {
  const internal::FloatMode mode;
  return function(*arguments);
}

}  // namespace
}  // namespace histogram::python

NB_MODULE(_native, module) {
  using namespace histogram::python;  // NOLINT(google-build-using-namespace)
  module.doc() = "The compiled part of the package histogram. Use the package.";
  nb::set_leak_warnings(false);  // others may hold results when the interpreter ends
  module.attr("BINS_MAX") = histogram::kBinCountMax;
  module.attr("VERSION") = HISTOGRAM_PYTHON_VERSION;
  static PyType_Slot counters_slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(&Counters::GetBuffer)}, {0, nullptr}};
  // NOLINTNEXTLINE(bugprone-unused-raii): the module keeps the class
  nb::class_<Counters>(module, "Counters", nb::type_slots(counters_slots),
                       "The counts of each bin, and three numbers more, as a buffer of int64.");
  nb::class_<histogram::PlanInUse>(module, "Plan", "Edges, compiled for a sample type.")
      .def_static("make", &MakePlan, nb::arg("edges"), nb::arg("type"))
      .def_static("even", &MakeEvenPlan, nb::arg("first"), nb::arg("last"), nb::arg("bins"),
                  nb::arg("arithmetic"), nb::arg("edges"), nb::arg("type"))
      .def("count", &CountSamples, nb::arg("samples"), nb::arg("threads"))
      .def("count_rows", &CountSampleRows, nb::arg("samples"), nb::arg("counts"),
           nb::arg("outside"), nb::arg("threads"), nb::arg("window") = 0, nb::arg("step") = 0,
           nb::arg("channels") = 1)
      .def_prop_ro("bin_count", &histogram::PlanInUse::bin_count);
  nb::class_<EvenCounter>(module, "EvenCounter", "Counts samples of a type into even bins.")
      .def(nb::init<std::string_view, nb::str, nb::str, nb::callable>(), nb::arg("type"),
           nb::arg("arithmetic"), nb::arg("edges"), nb::arg("later_edges"))
      .def("count", &EvenCounter::Count, nb::arg("samples"), nb::arg("first"), nb::arg("last"),
           nb::arg("bins"), nb::arg("threads"));
  module.def("quantiles", &Quantiles, nb::arg("samples"), nb::arg("type"), nb::arg("length"),
             nb::arg("shares"), nb::arg("weak"), nb::arg("out"), nb::arg("threads"));
  module.def("median", &Median, nb::arg("samples"), nb::arg("type"), nb::arg("length"),
             nb::arg("out"), nb::arg("threads"));
  module.def("order_statistics", &OrderStatistics, nb::arg("samples"), nb::arg("type"),
             nb::arg("length"), nb::arg("ranks"), nb::arg("out"), nb::arg("threads"));
  module.def("even_edges", &EvenEdges, nb::arg("first"), nb::arg("last"), nb::arg("bins"),
             nb::arg("arithmetic"), nb::arg("edge_type"));
  module.def("count_own_ranges", &CountOwnRanges, nb::arg("samples"), nb::arg("type"),
             nb::arg("bins"), nb::arg("counts"), nb::arg("outside"), nb::arg("edges"),
             nb::arg("threads"), nb::arg("window") = 0, nb::arg("step") = 0,
             nb::arg("channels") = 1);
  module.def("extent", &ExtentOf, nb::arg("samples"), nb::arg("type"));
  module.def("in_float_mode", &InFloatMode, nb::arg("function"), nb::arg("arguments"));
  module.def("bfloat_bits", &BfloatBits, nb::arg("array"));
  module.def("device_array", &DeviceArrayOf, nb::arg("array"));
  module.def("count_on_device", &CountOnDevice, nb::arg("function"), nb::arg("counter"),
             nb::arg("lower"), nb::arg("upper"), nb::arg("arithmetic"), nb::arg("samples"),
             nb::arg("count"), nb::arg("stream"), nb::arg("bins"));
}
