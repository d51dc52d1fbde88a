#include "bench/kernels/choices.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "kernels/cuda/backend/cuda_tuning.h"
#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/tuning/selector.h"

namespace histogram::bench {
namespace {

struct Shape {
  uint64_t payload_bytes;
  uint32_t payloads;
};
constexpr Shape kShapes[] = {{1 * kKiB, 1},    {4 * kKiB, 1},    {48 * kKiB, 1}, {64 * kKiB, 1},
                             {100 * kKiB, 1},  {512 * kKiB, 1},  {1 * kMiB, 1},  {3 * kMiB, 1},
                             {16 * kMiB, 1},   {1 * kKiB, 1000}, {4 * kKiB, 64}, {4 * kKiB, 1024},
                             {20 * kKiB, 100}, {64 * kKiB, 64},  {1 * kMiB, 8}};
constexpr int kRuns = 31;       // with every kernel
constexpr int kDuelRuns = 101;  // of the choice and the best of the others

// A batch of equal payloads in pageable memory.
class Payloads {
 public:
  Payloads(const std::vector<uint8_t>& bytes, const Shape& shape) : counts_(shape.payloads) {
    for (uint32_t i = 0; i < shape.payloads; ++i) {
      fragments_.emplace_back(bytes.data() + i * shape.payload_bytes, shape.payload_bytes);
    }
    for (uint32_t i = 0; i < shape.payloads; ++i) {
      batch_.items.push_back({.fragments = absl::MakeConstSpan(&fragments_[i], 1),
                              .bytes = shape.payload_bytes,
                              .counts = absl::MakeSpan(counts_[i])});
    }
    batch_.bytes = shape.payload_bytes * shape.payloads;
  }

  // Of each kernel. They take turns, so that what drifts on the host befalls all of them.
  std::vector<double> MedianUs(cuda::Lane& lane, int runs,
                               const std::vector<const cuda::CudaKernel*>& kernels) {
    std::vector<std::vector<double>> times(kernels.size());
    for (int run = 0; run < runs + 3; ++run) {
      for (size_t i = 0; i < kernels.size(); ++i) {
        const auto start = std::chrono::steady_clock::now();
        Check(lane.Begin(batch_, *kernels[i]));
        Check(lane.Wait());
        lane.Finish(batch_);
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - start;
        if (run >= 3) times[i].push_back(took.count());
      }
    }
    std::vector<double> medians;
    medians.reserve(times.size());
    for (std::vector<double>& of_kernel : times) medians.push_back(Median(std::move(of_kernel)));
    return medians;
  }

 private:
  std::vector<Fragment> fragments_;
  std::vector<ValueCounts> counts_;
  Batch batch_;
};

}  // namespace

std::vector<ChoiceRow> MeasureChoices(const Harness& harness) {
  cuda::SleepPrecisely();  // as on the thread that tunes a GPU
  BackendOptions options;
  options.cuda_lane_bytes = 16 * kMiB;
  auto made = cuda::Lane::Make({.device = harness.traits(),
                                .lane_bytes = options.cuda_lane_bytes,
                                .lane_payloads = options.lane_payloads,
                                .spin_us_max = options.spin_us_max,
                                .faults = std::make_shared<cuda::FaultPlan>()});
  Check(made.status());
  cuda::Lane& lane = **made;
  const tuning::Selector selector(cuda::KernelNames(),
                                  cuda::MakeCudaTable("cuda:0", options, lane));
  const std::vector<uint8_t> bytes = testing::MakePayload(Distribution::kUniform, 16 * kMiB);
  std::vector<ChoiceRow> choices;
  for (const Shape& shape : kShapes) {
    Workload workload;
    workload.payload_bytes = shape.payload_bytes;
    workload.payload_count = shape.payloads;
    workload.batch_bytes = shape.payload_bytes * shape.payloads;
    Payloads payloads(bytes, shape);
    ChoiceRow row;
    row.payload_bytes = shape.payload_bytes;
    row.payloads = shape.payloads;
    const cuda::CudaKernel* const chosen = cuda::Kernels()[selector.Choose(workload).value()];
    std::vector<const cuda::CudaKernel*> kernels;
    for (const cuda::CudaKernel* kernel : cuda::Kernels()) {
      const bool small_enough = !kernel->slow || workload.batch_bytes <= 128 * kKiB;
      if (!small_enough) continue;
      if (!kernel->batches && shape.payloads > 100) continue;  // a launch a payload
      kernels.push_back(kernel);
    }
    const std::vector<double> medians = payloads.MedianUs(lane, kRuns, kernels);
    const cuda::CudaKernel* other = nullptr;  // the best but for the choice
    double other_us = 0;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (kernels[i] == chosen || (other != nullptr && medians[i] >= other_us)) continue;
      other = kernels[i];
      other_us = medians[i];
    }
    const std::vector<double> duel = payloads.MedianUs(lane, kDuelRuns, {chosen, other});
    row.kernel = std::string(chosen->name);
    row.us = duel[0];
    row.best_kernel = std::string((duel[1] < duel[0] ? other : chosen)->name);
    row.best_us = std::min(duel[0], duel[1]);
    choices.push_back(row);
  }
  return choices;
}

}  // namespace histogram::bench
