#include "bench/kernels/host.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "kernels/cuda/backend/lane/lane.h"
#include "tests/kernels/reference.h"

namespace histogram::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLanesMax = 8;
constexpr uint32_t kSpinUsMax = 50;  // as a server's lanes

double ThreadCpuUs() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// A lane with batches of one payload, which lies in the lane's pinned memory.
struct LaneBatch {
  std::unique_ptr<cuda::Lane> lane;
  const cuda::CudaKernel* kernel = nullptr;
  std::vector<Fragment> fragments;
  ValueCounts counts{}, expected{};
  Batch batch;

  void Prepare(uint64_t bytes, uint64_t seed) {
    kernel = bytes <= cuda::kLoneBytesMax     ? cuda::FindKernel("one_block")
             : bytes <= cuda::kMappedBytesMax ? cuda::FindKernel("warp_batch")
                                              : cuda::FindKernel("lane_private");
    const std::vector<uint8_t> payload = testing::MakePayload(Distribution::kUniform, bytes, seed);
    expected = ReferenceCounts(payload);
    fragments = lane->PinnedFragments(bytes, *kernel);
    uint64_t at = 0;
    for (const Fragment& fragment : fragments) {
      std::copy_n(payload.begin() + static_cast<int64_t>(at), fragment.size(),
                  const_cast<uint8_t*>(fragment.data()));
      at += fragment.size();
    }
    batch = Batch();
    batch.items.push_back(
        {.fragments = fragments, .bytes = bytes, .counts = absl::MakeSpan(counts)});
    batch.bytes = bytes;
  }

  void Run() {
    Check(lane->Begin(batch, *kernel));
    Check(lane->Wait());
    lane->Finish(batch);
  }
};

HostRow MeasureRow(std::vector<LaneBatch>& lanes, int device, uint64_t bytes, uint32_t count,
                   double seconds) {
  std::atomic<uint32_t> ready{0};
  std::atomic<bool> start{false}, stop{false};
  std::vector<std::vector<double>> times(count);
  std::vector<double> cpu_us(count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      CheckCuda(cudaSetDevice(device), "cudaSetDevice");
      cuda::SleepPrecisely();
      LaneBatch& mine = lanes[i];
      for (int warm_up = 0; warm_up < 20; ++warm_up) mine.Run();
      ready.fetch_add(1);
      while (!start.load()) std::this_thread::yield();
      const double cpu_before = ThreadCpuUs();
      while (!stop.load(std::memory_order_relaxed)) {
        const auto begin = Clock::now();
        mine.Run();
        times[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      }
      cpu_us[i] = ThreadCpuUs() - cpu_before;
      if (mine.counts != mine.expected) Die("the host path counts wrong");
    });
  }
  while (ready.load() < count) std::this_thread::yield();
  const auto begin = Clock::now();
  start.store(true);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const double elapsed_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  std::vector<double> all;
  double cpu = 0;
  for (uint32_t i = 0; i < count; ++i) {
    all.insert(all.end(), times[i].begin(), times[i].end());
    cpu += cpu_us[i];
  }
  HostRow row;
  row.bytes = bytes;
  row.lanes = count;
  row.median_us = Median(all);
  row.p99_us = Percentile(all, 99);
  row.gbps = Gbps(bytes * all.size(), elapsed_us);
  row.cpu_us = cpu / static_cast<double>(all.size());
  return row;
}

}  // namespace

std::vector<HostRow> MeasureHost(const Harness& harness, double seconds) {
  const auto faults = std::make_shared<cuda::FaultPlan>();
  std::vector<LaneBatch> lanes(kLanesMax);
  for (LaneBatch& lane : lanes) {
    auto made = cuda::Lane::Make({.device = harness.traits(),
                                  .lane_bytes = 64 * kMiB,
                                  .lane_payloads = 4096,
                                  .spin_us_max = kSpinUsMax,
                                  .faults = faults});
    Check(made.status());
    lane.lane = *std::move(made);
  }
  std::vector<HostRow> rows;
  for (const uint64_t bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB}) {
    for (uint32_t i = 0; i < kLanesMax; ++i) lanes[i].Prepare(bytes, i + 1);
    for (const uint32_t count : {1U, 2U, 4U, 8U}) {
      rows.push_back(MeasureRow(lanes, harness.traits().index, bytes, count, seconds));
    }
  }
  return rows;
}

}  // namespace histogram::bench
