// What the batcher costs beside the counting: from Enqueue to Done, inline and through the queue.
//
//   bench_batcher --benchmark_filter=Inline
//
// The null backend counts nothing, so that all that is measured is the batcher's own. The cpu pair
// shows the same against real counting: InlineCpu minus CpuAlone is the batcher.
#include "server/batching/batcher.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "tests/base/no_observer.h"

namespace histogram::server {
namespace {

class NullBackend final : public Backend {
 public:
  NullBackend(uint32_t lanes, BackendKind kind) {
    info_.name = "null";
    info_.lanes = lanes;
    info_.lane_bytes = UINT64_MAX;
    info_.lane_payloads = UINT32_MAX;
    info_.kind = kind;
  }
  const BackendInfo& info() const override { return info_; }
  std::vector<KernelInfo> kernels() const override { return {}; }
  std::vector<KernelChoice> choices() const override { return {}; }
  bool up() const override { return true; }
  void MarkDown(const std::string&) override {}
  uint64_t EstimateNs(const Workload& workload) const override { return workload.batch_bytes; }
  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    held_.emplace_back(std::move(batch), std::move(done));
  }
  void Execute(Batch& batch) override { batch.status = absl::OkStatus(); }

  // Finishes what was submitted, on this thread, until nothing more comes.
  void FinishAll() {
    while (!held_.empty()) {
      auto [batch, done] = std::move(held_.back());
      held_.pop_back();
      done(std::move(batch));
    }
  }

 private:
  BackendInfo info_;
  std::vector<std::pair<std::unique_ptr<Batch>, Done>> held_;
};

class CountingJob final : public Job {
 public:
  void Done(const absl::Status& status) override { done += status.ok() ? 1 : 0; }
  uint64_t done = 0;
};

// Threads that each bring one small payload after the other.
void InlineNull(benchmark::State& state) {
  static std::unique_ptr<NullBackend> backend;
  static std::unique_ptr<Batcher> batcher;
  if (state.thread_index() == 0) {
    backend = std::make_unique<NullBackend>(64, BackendKind::kCpu);
    batcher = std::make_unique<Batcher>(std::vector<Backend*>{backend.get()}, BatchingLimits{},
                                        Clock::Monotonic(), Nobody());
  }
  CountingJob job;
  job.charge_bytes = 100;
  uint64_t counted = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto outcome = batcher->Enqueue(&job, Batcher::WhenFull::kRefuse);
    counted += outcome.ok() && *outcome == Batcher::Outcome::kCounted ? 1 : 0;
  }
  if (counted != static_cast<uint64_t>(state.iterations())) state.SkipWithError("lost jobs");
  if (state.thread_index() == 0) batcher.reset();
}
BENCHMARK(InlineNull)->ThreadRange(1, 8)->UseRealTime();

// The same where there is a GPU to choose as well, which is tried now and then: the choice is what
// this costs more than InlineNull.
void InlineOfTwoKinds(benchmark::State& state) {
  NullBackend cpu(64, BackendKind::kCpu), gpu(64, BackendKind::kGpu);
  Batcher batcher({&cpu, &gpu}, BatchingLimits{}, Clock::Monotonic(), Nobody());
  CountingJob job;
  job.charge_bytes = 100;
  for ([[maybe_unused]] auto _ : state) {
    const auto outcome = batcher.Enqueue(&job, Batcher::WhenFull::kRefuse);
    if (!outcome.ok() || *outcome != Batcher::Outcome::kQueued) continue;
    gpu.FinishAll();
    cpu.FinishAll();
  }
}
BENCHMARK(InlineOfTwoKinds)->UseRealTime();

// One lane, and range(0) payloads of range(1) callers behind it: the whole cost of a payload.
void QueuedNull(benchmark::State& state) {
  NullBackend backend(1, BackendKind::kGpu);
  BatchingLimits limits;
  limits.batch_payloads_max = 1024;
  Batcher batcher({&backend}, limits, Clock::Monotonic(), Nobody());
  std::vector<CountingJob> jobs(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].charge_bytes = 100;
    jobs[i].caller = i % static_cast<size_t>(state.range(1));
  }
  for ([[maybe_unused]] auto _ : state) {
    for (CountingJob& job : jobs) {
      benchmark::DoNotOptimize(batcher.Enqueue(&job, Batcher::WhenFull::kRefuse));
    }
    backend.FinishAll();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(QueuedNull)->Args({1, 1})->Args({64, 1})->Args({64, 64})->Args({4096, 200});

std::unique_ptr<Backend> MakeCpu() {
  BackendOptions options;
  options.choice = BackendOptions::Choice::kCpu;
  options.cpu_lanes = 2;
  auto set = MakeBackends(options);
  return set.ok() ? std::move(set->backends.front()) : nullptr;
}

void CpuAlone(benchmark::State& state) {
  const auto cpu = MakeCpu();
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 7);
  const Fragment fragment(payload);
  ValueCounts counts;
  Batch batch;
  batch.bytes = payload.size();
  batch.items.push_back({.fragments = absl::MakeConstSpan(&fragment, 1),
                         .bytes = payload.size(),
                         .counts = absl::MakeSpan(counts)});
  for ([[maybe_unused]] auto _ : state) {
    cpu->Execute(batch);
    benchmark::DoNotOptimize(counts);
  }
}
BENCHMARK(CpuAlone)->Arg(0)->Arg(256)->Arg(4096)->Arg(65536);

void InlineCpu(benchmark::State& state) {
  const auto cpu = MakeCpu();
  Batcher batcher({cpu.get()}, BatchingLimits{}, Clock::Monotonic(), Nobody());
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 7);
  const Fragment fragment(payload);
  CountingJob job;
  job.fragments = absl::MakeConstSpan(&fragment, 1);
  job.bytes = payload.size();
  job.charge_bytes = payload.size() + 2048;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(batcher.Enqueue(&job, Batcher::WhenFull::kRefuse));
  }
}
BENCHMARK(InlineCpu)->Arg(0)->Arg(256)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace histogram::server

BENCHMARK_MAIN();
