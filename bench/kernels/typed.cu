// bench-typed-kernels: typed samples that lie on the GPU, as shares of what the device reads,
// beside CUB in the same run.
//
//   bench-typed-kernels [--json FILE] [--commit ID] [--types f32,u16] [--quick]
//
// Every count of every row is compared with a search of each sample among the thresholds; a
// difference ends the program. "multiples" takes every 32nd bin only; "edges" puts every sample on
// an edge or one step beside it.
#include <histogram/cuda.h>
#include <histogram/typed.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <cub/device/device_histogram.cuh>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kernels/ceilings.h"
#include "bench/kernels/harness.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/typed_plan.h"

namespace histogram::bench {
namespace {

constexpr const char* kDistributions[] = {"uniform", "normal", "constant",  "two",
                                          "sixteen", "sorted", "multiples", "edges"};
constexpr int kRuns = 7;

__device__ uint32_t Mixed(uint64_t i) {
  uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  return static_cast<uint32_t>((x ^ x >> 27) * 0x94D049BB133111EBU >> 32);
}

// The value of sample i of `count`, as a double.
__device__ double Value(int distribution, uint64_t i, uint64_t count, const double* edges,
                        uint32_t bins) {
  const double low = edges[0], high = edges[bins], range = high - low;
  const double share = (Mixed(2 * i) + 0.5) / 4294967296.0;
  switch (distribution) {
    case 0:
      return low + range * share;
    case 1: {
      const double other = (Mixed(2 * i + 1) + 0.5) / 4294967296.0;
      return (low + high) / 2 + range / 8 * sqrt(-2 * log(share)) * cospi(2 * other);
    }
    case 2:
      return low + range * 0.37;
    case 3:
      return low + range * (i % 2 == 0 ? 0.2 : 0.7);
    case 4:
      return low + range * (Mixed(i) % 16 + 0.5) / 16;
    case 5:
      return low + range * (static_cast<double>(i) / static_cast<double>(count));
    case 6: {
      const uint32_t bin = bins < 64 ? 0 : Mixed(i) % (bins / 32) * 32;
      return edges[bin] / 2 + edges[bin + 1] / 2;
    }
    default:
      return edges[Mixed(i) % (bins + 1)];
  }
}

template <typename Bits, bool kFloat>
__device__ Bits ToBits(double value, bool bfloat) {
  if constexpr (sizeof(Bits) == 8) {
    if (kFloat) return static_cast<Bits>(__double_as_longlong(value));
  }
  if constexpr (sizeof(Bits) == 4) {
    if (kFloat) return static_cast<Bits>(__float_as_uint(static_cast<float>(value)));
  }
  if constexpr (sizeof(Bits) == 2) {
    if (kFloat && bfloat) {
      return static_cast<Bits>(__float_as_uint(static_cast<float>(value)) >> 16);
    }
    if (kFloat) return __half_as_ushort(__float2half(static_cast<float>(value)));
  }
  return static_cast<Bits>(static_cast<int64_t>(floor(value)));
}

template <typename Bits, bool kFloat>
__global__ void FillKernel(Bits* samples, uint64_t count, int distribution, const double* edges,
                           uint32_t bins, bool bfloat) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Bits bits = ToBits<Bits, kFloat>(Value(distribution, i, count, edges, bins), bfloat);
    if (distribution == 7) bits = static_cast<Bits>(bits + Mixed(i + 7) % 3 - 1);
    samples[i] = bits;
  }
}

// A plain count: a search among the thresholds, and an atomic in global memory.
template <typename C, typename Bits, bool kFloat>
__global__ void PlainKernel(const Bits* samples, uint64_t count, cuda::TypedBins<C> bins,
                            bool bfloat, uint64_t flip, C base, unsigned long long* counts) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    C x;
    if constexpr (sizeof(Bits) == 2 && kFloat) {
      x = bfloat ? __uint_as_float(uint32_t{samples[i]} << 16)
                 : __half2float(__ushort_as_half(samples[i]));
    } else if constexpr (kFloat) {
      memcpy(&x, samples + i, sizeof(x));
    } else {
      x = static_cast<C>(static_cast<Bits>(samples[i] ^ flip)) + base;
    }
    uint32_t slot = bins.bins + 2;
    if (x < bins.lower) {
      slot = bins.bins;
    } else if (x > bins.upper) {
      slot = bins.bins + 1;
    } else if (x == x) {
      uint32_t low = 0, high = bins.reached;
      while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (x >= bins.thresholds[middle] ? low : high) = middle;
      }
      slot = low;
    }
    atomicAdd(&counts[slot], 1ULL);
  }
}

struct Row {
  std::string type, binning, distribution, kernel;
  uint32_t bins = 0;
  double gbps = 0, of_ceiling = 0;
};

class Bench {
 public:
  explicit Bench(bool quick) : quick_(quick), bytes_(quick ? 64 * kMiB : kGiB) {
    ceilings_ = MeasureCeilings(harness_, {bytes_});
    Check(counts_.Init(uint64_t{1} << 20));
    Check(expected_.Init(uint64_t{1} << 20));
  }

  void Even(SampleType type, uint32_t bins, double low, double high,
            const std::string& name = "even") {
    Measure(*Binning::Even(bins, low, high), name, type);
  }
  // Edges by the third power: closer together in the middle.
  void Uneven(SampleType type, uint32_t bins, double low, double high) {
    std::vector<double> edges;
    for (uint32_t i = 0; i <= bins; ++i) {
      const double share = 2.0 * i / bins - 1;
      edges.push_back((low + high) / 2 + (high - low) / 4 * (share * share * share + share));
    }
    Measure(*Binning::Edges(edges), "uneven", type);
  }

  // Microseconds from the call to the result on the host.
  double SmallCallUs(uint64_t samples) {
    const Plan plan = *Plan::Make(*Binning::Even(2048, -4.0, 4.0), SampleType::kF32);
    Fill(plan, 1);
    Result<DeviceCounter> counter = DeviceCounter::Make(plan);
    if (!counter.ok()) Die(counter.error().message);
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) {
      const auto start = std::chrono::steady_clock::now();
      if (counter->Clear(harness_.stream()) ||
          counter->Add(harness_.input(), samples, harness_.stream()) ||
          !counter->Read(harness_.stream()).ok()) {
        Die("a small call failed");
      }
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      if (i >= 100) times.push_back(took.count());
    }
    return Median(times);
  }

  void Write(const std::string& path, const std::string& commit) const;

  std::vector<Row> rows;
  double null_launch_us() const { return ceilings_.null_launch_us; }

  double small_call_us = 0;
  std::string only;  // types between commas; empty: all

 private:
  struct Buffer {
    absl::Status Init(uint64_t slots) {
      absl::StatusOr<cuda::DeviceBuffer> made = cuda::DeviceBuffer::Make(slots * 8);
      if (!made.ok()) return made.status();
      memory = *std::move(made);
      return absl::OkStatus();
    }
    unsigned long long* get() const { return memory.get<unsigned long long>(); }
    cuda::DeviceBuffer memory;
  };

  template <typename Visit>
  static void VisitBits(SampleType type, Visit&& visit) {
    switch (type) {
      case SampleType::kU8:
        return visit.template operator()<uint32_t, uint8_t, false>();
      case SampleType::kI8:
        return visit.template operator()<uint32_t, uint8_t, false>();
      case SampleType::kU16:
        return visit.template operator()<uint32_t, uint16_t, false>();
      case SampleType::kI16:
        return visit.template operator()<uint32_t, uint16_t, false>();
      case SampleType::kU32:
        return visit.template operator()<uint32_t, uint32_t, false>();
      case SampleType::kI32:
        return visit.template operator()<uint32_t, uint32_t, false>();
      case SampleType::kU64:
        return visit.template operator()<uint64_t, uint64_t, false>();
      case SampleType::kI64:
        return visit.template operator()<uint64_t, uint64_t, false>();
      case SampleType::kF16:
      case SampleType::kBf16:
        return visit.template operator()<float, uint16_t, true>();
      case SampleType::kF32:
        return visit.template operator()<float, uint32_t, true>();
      case SampleType::kF64:
        return visit.template operator()<double, uint64_t, true>();
    }
  }

  void Fill(const Plan& plan, int distribution) {
    const std::vector<double> edges = plan.binning().ComputeEdges();
    absl::StatusOr<cuda::DeviceBuffer> on_device = cuda::DeviceBuffer::Make(edges.size() * 8);
    Check(on_device.status());
    CheckCuda(cudaMemcpy(on_device->get(), edges.data(), edges.size() * 8, cudaMemcpyHostToDevice),
              "edges");
    VisitBits(plan.type(), [&]<typename C, typename Bits, bool kFloat>() {
      FillKernel<Bits, kFloat><<<1024, 256, 0, harness_.stream()>>>(
          reinterpret_cast<Bits*>(harness_.input()), bytes_ / sizeof(Bits), distribution,
          on_device->get<double>(), plan.bin_count(), plan.type() == SampleType::kBf16);
    });
    CheckCuda(cudaStreamSynchronize(harness_.stream()), "fill");
  }

  std::vector<uint64_t> Read(const Buffer& buffer, uint32_t slots) {
    std::vector<uint64_t> values(slots);
    CheckCuda(cudaMemcpyAsync(values.data(), buffer.get(), slots * 8, cudaMemcpyDeviceToHost,
                              harness_.stream()),
              "read");
    CheckCuda(cudaStreamSynchronize(harness_.stream()), "read");
    return values;
  }

  void Clear(const Buffer& buffer, uint32_t slots) {
    CheckCuda(cudaMemsetAsync(buffer.get(), 0, slots * 8, harness_.stream()), "clear");
  }

  void Measure(const Binning& binning, const std::string& name, SampleType type) {
    if (!only.empty() && only.find("," + std::string(NameOf(type)) + ",") == std::string::npos)
      return;
    const Plan plan = *Plan::Make(binning, type);
    absl::StatusOr<cuda::DevicePlan> on_device = cuda::DevicePlan::Make(plan);
    Check(on_device.status());
    const uint32_t slots = internal::SlotCount(plan.bin_count());
    cuda::TypedLaunch launch;
    launch.type = type;
    launch.samples = harness_.input();
    launch.count = bytes_ / SampleBytes(type);
    launch.counts = counts_.get();
    launch.device = &harness_.traits();
    launch.stream = harness_.stream();
    for (int d = 0; d < 8; ++d) {
      Fill(plan, d);
      Clear(counts_, slots);
      Check(on_device->Enqueue(launch));
      CountPlainly(plan, *on_device);
      if (Read(counts_, slots) != Read(expected_, slots)) {
        Die(absl::StrCat(std::string(NameOf(type)), ", ", plan.bin_count(), " ", name, " bins, ",
                         kDistributions[d], ": a count is wrong"));
      }
      const double us = harness_.MedianUs(kRuns, [&](int) { Check(on_device->Enqueue(launch)); });
      Add(plan, name, d, "typed_table", us);
      if (type == SampleType::kF32 && name == "even") {
        Add(plan, name, d, "cub", CubUs<float>(binning, launch.count));
      }
    }
  }

  void CountPlainly(const Plan& plan, const cuda::DevicePlan& on_device) {
    Clear(expected_, internal::SlotCount(plan.bin_count()));
    VisitBits(plan.type(), [&]<typename C, typename Bits, bool kFloat>() {
      PlainKernel<C, Bits, kFloat><<<1024, 256, 0, harness_.stream()>>>(
          reinterpret_cast<const Bits*>(harness_.input()), bytes_ / sizeof(Bits),
          on_device.bins<C>(), plan.type() == SampleType::kBf16, cuda::KeyFlip(plan.type()),
          cuda::KeyBase<C>(plan.type()), expected_.get());
    });
    Check(cuda::LaunchStatus("PlainKernel"));
  }

  template <typename T>
  double CubUs(const Binning& binning, uint64_t count) {
    const std::vector<double> edges = binning.ComputeEdges();
    const auto run = [&](void* temporary, size_t& bytes) {
      CheckCuda(cub::DeviceHistogram::HistogramEven(
                    temporary, bytes, reinterpret_cast<const T*>(harness_.input()),
                    reinterpret_cast<unsigned int*>(counts_.get()),
                    static_cast<int>(binning.bin_count()) + 1, static_cast<T>(edges.front()),
                    static_cast<T>(edges.back()), static_cast<int>(count), harness_.stream()),
                "cub");
    };
    size_t bytes = 0;
    run(nullptr, bytes);
    if (cub_.bytes() < bytes) {
      absl::StatusOr<cuda::DeviceBuffer> made = cuda::DeviceBuffer::Make(bytes);
      Check(made.status());
      cub_ = *std::move(made);
    }
    return harness_.MedianUs(3, [&](int) { run(cub_.get(), bytes); });
  }

  void Add(const Plan& plan, const std::string& binning, int distribution,
           const std::string& kernel, double us) {
    Row row;
    row.type = NameOf(plan.type());
    row.binning = binning;
    row.distribution = kDistributions[distribution];
    row.kernel = kernel;
    row.bins = plan.bin_count();
    row.gbps = Gbps(bytes_, us);
    row.of_ceiling = row.gbps / ceilings_.read.at(bytes_).gbps;
    absl::PrintF("%-5s %6d %-6s %-9s %-11s %7.0f GB/s %5.1f %%\n", row.type, row.bins, row.binning,
                 row.distribution, row.kernel, row.gbps, 100 * row.of_ceiling);
    std::fflush(stdout);
    rows.push_back(row);
  }

  const bool quick_;
  const uint64_t bytes_;
  Harness harness_;
  Ceilings ceilings_;
  Buffer counts_, expected_;
  cuda::DeviceBuffer cub_;
};

void Bench::Write(const std::string& path, const std::string& commit) const {
  std::ofstream out(path);
  char date[16];
  const time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  out << absl::StrFormat(
      "{\n  \"device\": \"%s\",\n  \"driver\": \"%s\",\n  \"commit\": \"%s\",\n  \"date\": "
      "\"%s\",\n  \"bytes\": %d,\n"
      "  \"read_gbps\": %.1f,\n  \"null_launch_us\": %.2f,\n  \"small_call_us\": %.2f,\n"
      "  \"rows\": [\n",
      harness_.device().name, harness_.device().driver, commit, date, bytes_,
      ceilings_.read.at(bytes_).gbps, ceilings_.null_launch_us, small_call_us);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << absl::StrFormat(
        "    {\"type\": \"%s\", \"binning\": \"%s\", \"bins\": %d, \"distribution\": \"%s\", "
        "\"kernel\": \"%s\", \"gbps\": %.1f, \"of_ceiling\": %.4f}%s\n",
        row.type, row.binning, row.bins, row.distribution, row.kernel, row.gbps, row.of_ceiling,
        i + 1 < rows.size() ? "," : "");
  }
  out << "  ]\n}\n";
  if (!out.flush()) Die(absl::StrCat("cannot write ", path));
}

int Main(int argc, char** argv) {
  std::string json, commit = "unknown", only;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      quick = true;
    } else if (word == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (word == "--types" && i + 1 < argc) {
      only = "," + std::string(argv[++i]) + ",";
    } else if (word == "--commit" && i + 1 < argc) {
      commit = argv[++i];
    } else {
      Die(absl::StrCat("unknown argument '", word,
                       "'; valid are --json FILE, --commit ID, --types LIST, --quick"));
    }
  }
  Bench bench(quick);
  bench.only = only;
  bench.small_call_us = bench.SmallCallUs(65536);
  absl::PrintF("a call on 65,536 samples: %.1f us; a null launch: %.1f us\n", bench.small_call_us,
               bench.null_launch_us());
  for (const uint32_t bins : {256U, 2048U, 8192U, 16384U, 49152U, 65536U}) {
    bench.Even(SampleType::kF32, bins, -4, 4);
  }
  // A range whose multiply-add is not exact in float, and one whose edges are not in double either.
  for (const uint32_t bins : {2048U, 16384U}) {
    bench.Even(SampleType::kF32, bins, 0, 255, "0-255");
    bench.Even(SampleType::kF32, bins, 0.1, 0.8, "0.1-0.8");
  }
  for (const SampleType type : {SampleType::kI32, SampleType::kU32}) {
    for (const uint32_t bins : {256U, 2048U, 16384U}) bench.Even(type, bins, 0, 1e6);
  }
  for (const uint32_t bins : {256U, 2048U, 16384U}) bench.Even(SampleType::kF64, bins, -4, 4);
  bench.Even(SampleType::kI64, 2048, 0, 1e6);
  for (const SampleType type : {SampleType::kU16, SampleType::kI16}) {
    const double low = type == SampleType::kU16 ? 0 : -32768;
    for (const uint32_t bins : {256U, 4096U, 65536U}) bench.Even(type, bins, low, low + 65536);
  }
  for (const SampleType type : {SampleType::kF16, SampleType::kBf16}) {
    for (const uint32_t bins : {256U, 4096U}) bench.Even(type, bins, -4, 4);
  }
  for (const uint32_t bins : {16U, 256U, 4096U}) bench.Uneven(SampleType::kF32, bins, -4, 4);
  if (!json.empty()) bench.Write(json, commit);
  return 0;
}

}  // namespace
}  // namespace histogram::bench

int main(int argc, char** argv) { return histogram::bench::Main(argc, argv); }
