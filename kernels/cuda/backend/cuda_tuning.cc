#include "kernels/cuda/backend/cuda_tuning.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "kernels/cuda/backend/lane/streaming_copy.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/tuning/tune.h"

namespace histogram::cuda {
namespace {

// What a start may take for a GPU: less leaves noise in the choices. Not measured apart.
constexpr uint64_t kTuneNsMax = 1'000'000'000;
constexpr uint64_t kKiB = 1024;

// Workloads that are measured: payloads of one size, alone, a few and many of them. The best kernel
// for many is not the best for a few: a few fit into the memory that kernels read in place.
constexpr uint64_t kLoneBytes[] = {kKiB / 4,   kKiB,       4 * kKiB,    16 * kKiB,   64 * kKiB,
                                   256 * kKiB, 512 * kKiB, 1024 * kKiB, 4096 * kKiB, 16384 * kKiB};
struct Many {
  uint64_t bytes;
  uint32_t count;
  uint32_t payloads_max = UINT32_MAX;  // of the row; at most the lane's
};
constexpr Many kMany[] = {{kKiB / 4, 1024},   {kKiB, 64, 64},  {kKiB, 1024},
                          {4 * kKiB, 64, 64}, {4 * kKiB, 256}, {16 * kKiB, 16, 16},
                          {16 * kKiB, 64},    {64 * kKiB, 32}, {256 * kKiB, 8},
                          {1024 * kKiB, 4},   {4096 * kKiB, 3}};

// Up to this size a batch costs so little that it can be measured often, and PCIe adds little
// noise. On an H200 the worst of the choices costs 0.16 of the 3 % or 1 us that are allowed
// (8e4a7ed, bench-kernels --only choices).
constexpr uint64_t kQuietBytesMax = 1024 * kKiB;
constexpr uint32_t kQuietRuns = 48;
// PCIe decides larger batches: what is left to tell kernels apart is smaller than its noise.
constexpr double kNoisyMargin = 0.06;

// The time of a batch of this shape without its gathering. All kernels gather alike, and of a large
// batch gathering takes most of the time: its noise would decide between them. The batch is of the
// first bytes of `sample`, all payloads under the plan.
absl::StatusOr<uint64_t> MeasureNs(Lane& lane, absl::Span<const uint8_t> sample, const Plan& plan,
                                   const Workload& workload,
                                   absl::FunctionRef<absl::Status(const Batch&)> begin_batch) {
  const uint64_t slots = plan.counter_count();
  std::vector<Fragment> fragments;
  for (uint32_t i = 0; i < workload.payload_count; ++i) {
    fragments.emplace_back(sample.data() + i * workload.payload_bytes, workload.payload_bytes);
  }
  std::vector<uint64_t> counts(workload.payload_count * slots);
  Batch batch;
  batch.bytes = workload.batch_bytes;
  for (uint32_t i = 0; i < workload.payload_count; ++i) {
    batch.items.push_back({.fragments = absl::MakeConstSpan(&fragments[i], 1),
                           .bytes = workload.payload_bytes,
                           .plan = plan,
                           .counts = absl::MakeSpan(counts).subspan(i * slots, slots)});
  }
  const uint64_t start = NowNs();
  if (const absl::Status begun = begin_batch(batch); !begun.ok()) {
    if (const absl::Status drained = lane.Drain(); !drained.ok()) return drained;
    return begun;
  }
  HISTOGRAM_RETURN_IF_ERROR(lane.Wait());
  lane.Finish(batch);
  const uint64_t took_ns = NowNs() - start;
  return std::max<uint64_t>(1, took_ns - std::min(took_ns, batch.report.gather_ns));
}

// The rows that hold where nothing is measured.
std::vector<KernelChoice> DefaultRows(const std::string& backend, const BackendOptions& options) {
  const auto row = [&](uint64_t payload_bytes_max, uint32_t payloads_max, const char* kernel) {
    return KernelChoice{.backend = backend,
                        .bin_count_max = kBinCountMax,
                        .payload_bytes_max = payload_bytes_max,
                        .payloads_max = payloads_max,
                        .kernel = kernel};
  };
  return {
      row(kLoneBytesMax, 1, "one_block"),
      row(std::min(kMappedBytesMax, options.cuda_lane_bytes), options.lane_payloads, "warp_batch"),
      row(options.cuda_lane_bytes, 1, "lane_private"),
      row(options.cuda_lane_bytes, options.lane_payloads, "quad_batch")};
}

}  // namespace

// Cells of growing size, so that Tune recognises slow kernels while they are cheap to measure.
std::vector<tuning::TuneCell> TuningCells(const BackendOptions& options) {
  std::vector<tuning::TuneCell> cells;
  const auto add = [&](uint64_t bytes, uint32_t count, uint64_t reach, uint32_t payloads_max) {
    if (bytes * count > options.cuda_lane_bytes || count > options.lane_payloads) return;
    tuning::TuneCell cell;
    cell.measured.payload_bytes = bytes;
    cell.measured.payload_count = count;
    cell.measured.batch_bytes = bytes * count;
    cell.payload_bytes_max = std::min(reach, options.cuda_lane_bytes);
    cell.payloads_max = payloads_max;
    if (cell.measured.batch_bytes <= kQuietBytesMax) {
      cell.runs = kQuietRuns;
    } else {
      cell.margin = kNoisyMargin;
    }
    cells.push_back(cell);
  };
  // A row reaches to its own size, where kernels have their limits, and the last to the lane's.
  for (const uint64_t bytes : kLoneBytes) {
    add(bytes, 1, bytes == *std::rbegin(kLoneBytes) ? UINT64_MAX : bytes, 1);
  }
  for (const Many& many : kMany) {
    add(many.bytes, many.count, many.bytes == std::rbegin(kMany)->bytes ? UINT64_MAX : many.bytes,
        std::min(many.payloads_max, options.lane_payloads));
  }
  std::stable_sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
    return a.measured.batch_bytes < b.measured.batch_bytes;
  });
  return cells;
}

double MeasureGatherNsPerByte(Lane& lane) {
  constexpr uint64_t kBytes = 64 * kKiB;
  constexpr int kCopies = 16;
  const std::vector<uint8_t> sample = tuning::MixedBytes(kCopies * kBytes);
  const Fragment pinned = lane.PinnedFragments(kBytes, *FindKernel("warp_batch")).front();
  auto* const to = const_cast<uint8_t*>(pinned.data());
  const uint64_t start = NowNs();
  for (int i = 0; i < kCopies; ++i) StreamingCopy(to, sample.data() + i * kBytes, kBytes);
  StreamingFence();
  return static_cast<double>(NowNs() - start) / static_cast<double>(kCopies * kBytes);
}

std::vector<KernelChoice> MakeCudaTable(const std::string& backend, const BackendOptions& options,
                                        Lane& lane) {
  // Injected faults count launches: those of clients, not ours.
  if (!options.tune || !options.fault_injection.empty()) return DefaultRows(backend, options);
  const std::vector<uint8_t> sample = tuning::MixedBytes(options.cuda_lane_bytes);
  const uint64_t deadline_ns = NowNs() + kTuneNsMax;
  const std::vector<tuning::TuneCell> cells = TuningCells(options);
  std::vector<KernelChoice> rows = tuning::Tune(
      backend, KernelNames(), cells,
      [deadline_ns] { return deadline_ns - std::min(deadline_ns, NowNs()); },
      [&](size_t candidate, const Workload& workload) {
        return MeasureNs(lane, sample, Plan(), workload, [&](const Batch& batch) {
          return lane.Begin(batch, *Kernels()[candidate]);
        });
      });
  // For what no cell was measured: behind the measured rows, since theirs have the same limits.
  for (KernelChoice& row : DefaultRows(backend, options)) rows.push_back(std::move(row));
  return rows;
}

absl::StatusOr<std::vector<KernelChoice>> MakeTypedRows(const std::string& backend,
                                                        const BackendOptions& options, Lane& lane) {
  constexpr uint64_t kMeasuredBytes[] = {64 * kKiB, 1024 * kKiB, 16384 * kKiB};
  constexpr int kRuns = 5;
  KernelChoice row = {.backend = backend,
                      .sample_type = SampleType::kF32,
                      .bin_count_max = kTypedBinsMeasured,
                      .payload_bytes_max = options.cuda_lane_bytes,
                      .payloads_max = 1,
                      .kernel = std::string(kTypedTableName)};
  // Injected faults count launches: those of clients, not ours.
  if (!options.tune || !options.fault_injection.empty()) return std::vector{row};
  const Plan plan =
      *Plan::Make(*Binning::Even(kTypedBinsMeasured, 0.0, kTypedBinsMeasured), SampleType::kF32);
  // Spread evenly over the bins.
  std::vector<float> samples(*std::rbegin(kMeasuredBytes) / sizeof(float));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(i * 7919 % kTypedBinsMeasured);
  }
  const Fragment sample(reinterpret_cast<const uint8_t*>(samples.data()),
                        samples.size() * sizeof(float));
  std::vector<KernelChoice> rows;
  for (const uint64_t wanted : kMeasuredBytes) {
    const uint64_t bytes =
        std::min(wanted, options.cuda_lane_bytes / sizeof(float) * sizeof(float));
    if (!rows.empty() && bytes <= rows.back().payload_bytes_max) break;
    row.payload_bytes_max = bytes;
    row.cost_ns = UINT64_MAX;
    for (int run = 0; run < kRuns; ++run) {
      const absl::StatusOr<uint64_t> ns =
          MeasureNs(lane, sample, plan, {.payload_bytes = bytes, .batch_bytes = bytes},
                    [&](const Batch& batch) { return lane.BeginTyped(batch); });
      if (!ns.ok()) return ns.status();
      row.cost_ns = std::min(row.cost_ns, *ns);
    }
    row.gigabytes_per_second = static_cast<double>(bytes) / static_cast<double>(row.cost_ns);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace histogram::cuda
