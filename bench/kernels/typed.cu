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
#include "bench/kernels/typed_data.cuh"
#include "bench/kernels/typed_rows.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/plan/typed_plan.h"

namespace histogram::bench {
namespace {

constexpr int kRuns = 7;
constexpr uint32_t kBinsMax = 1U << 24;
constexpr uint32_t kCubBinsMax = 1U << 20;
// For as many samples as a DeviceCounter counts at once.
constexpr uint64_t kWorkspaceBytes = uint64_t{160} << 20;

class Bench {
 public:
  explicit Bench(bool quick) : quick_(quick), bytes_(quick ? 64 * kMiB : kGiB) {
    ceilings_ = MeasureCeilings(harness_, {bytes_});
    Check(counts_.Init(kBinsMax + internal::kOutsideSlots));
    Check(expected_.Init(kBinsMax + internal::kOutsideSlots));
    absl::StatusOr<cuda::DeviceBuffer> workspace = cuda::DeviceBuffer::Make(kWorkspaceBytes);
    Check(workspace.status());
    workspace_ = *std::move(workspace);
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

  // Several histograms, and quantiles.
  void Rows() {
    if (only.empty() || only.find(",u8,") != std::string::npos) {
      MeasureChannels(harness_, ceilings_, bytes_, rows);
      MeasureWindows(harness_, ceilings_, bytes_, rows);
    }
    if (only.empty() || only.find(",f32,") != std::string::npos) {
      MeasureQuantiles(harness_, ceilings_, bytes_, rows);
    }
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
      if (!counter->Count(harness_.input(), samples, harness_.stream()).ok()) {
        Die("a small call failed");
      }
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      if (i >= 100) times.push_back(took.count());
    }
    return Median(times);
  }

  void Write(const std::string& path, const std::string& commit) const;

  std::vector<TypedRow> rows;
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

  void Fill(const Plan& plan, int distribution) {
    FillSamples(plan, distribution, harness_.input(), bytes_, harness_.stream());
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
    Check(cuda::PrepareTable(type, on_device->bins, harness_.traits()));
    const uint32_t slots = internal::SlotCount(plan.bin_count());
    cuda::TypedLaunch launch;
    launch.type = type;
    launch.samples = harness_.input();
    launch.count = bytes_ / SampleBytes(type);
    launch.counts = counts_.get();
    launch.workspace = workspace_.get();
    launch.workspace_bytes = workspace_.bytes();
    launch.device = &harness_.traits();
    launch.stream = harness_.stream();
    for (int d = 0; d < 8; ++d) {
      Fill(plan, d);
      Clear(counts_, slots);
      Check(cuda::EnqueueTyped(launch, on_device->bins));
      CountPlainly(plan, *on_device);
      if (Read(counts_, slots) != Read(expected_, slots)) {
        Die(absl::StrCat(std::string(NameOf(type)), ", ", plan.bin_count(), " ", name, " bins, ",
                         kDistributions[d], ": a count is wrong"));
      }
      const double us = harness_.MedianUs(
          kRuns, [&](int) { Check(cuda::EnqueueTyped(launch, on_device->bins)); });
      const bool partition = cuda::WorkspaceBytes(plan.bin_count(), 1, harness_.traits()) > 0;
      Add(plan, name, d, partition ? "typed_partition" : "typed_table", us);
      if (type == SampleType::kF32 && name == "even" && binning.bin_count() <= kCubBinsMax) {
        Add(plan, name, d, "cub", CubUs<float>(binning, launch.count));
      }
    }
  }

  void CountPlainly(const Plan& plan, const cuda::DevicePlan& on_device) {
    Clear(expected_, internal::SlotCount(plan.bin_count()));
    VisitBits(plan.type(), [&]<typename C, typename Bits, bool kFloat>() {
      PlainKernel<C, Bits, kFloat><<<1024, 256, 0, harness_.stream()>>>(
          reinterpret_cast<const Bits*>(harness_.input()), bytes_ / sizeof(Bits),
          std::get<cuda::TypedBins<C>>(on_device.bins), plan.type() == SampleType::kBf16,
          expected_.get());
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
    TypedRow row;
    row.type = NameOf(plan.type());
    row.binning = binning;
    row.distribution = kDistributions[distribution];
    row.kernel = kernel;
    row.bins = plan.bin_count();
    row.gbps = Gbps(bytes_, us);
    row.of_ceiling = row.gbps / ceilings_.read.at(bytes_).gbps;
    Print(row);
    rows.push_back(row);
  }

  const bool quick_;
  const uint64_t bytes_;
  Harness harness_;
  Ceilings ceilings_;
  Buffer counts_, expected_;
  cuda::DeviceBuffer workspace_, cub_;
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
    const TypedRow& row = rows[i];
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
  for (const uint32_t bins :
       {256U, 2048U, 8192U, 16384U, 49152U, 65536U, 131072U, 1U << 20, 1U << 24}) {
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
  bench.Rows();
  if (!json.empty()) bench.Write(json, commit);
  return 0;
}

}  // namespace
}  // namespace histogram::bench

int main(int argc, char** argv) { return histogram::bench::Main(argc, argv); }
