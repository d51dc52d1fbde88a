#include "kernels/phases.h"

#include <algorithm>
#include <vector>

#include "kernels/payload.h"

namespace histogram {
namespace {

// Executes phases on a payload, which it joins if a phase needs it in one piece.
class Runner {
 public:
  Runner(Phases& phases, std::span<const Fragment> payload) : phases_(phases), payload_(payload) {}

  std::string Run() {
    while (std::optional<Phase> phase = phases_.Next(payload_)) {
      std::visit([this](const auto& its) { Execute(its); }, *phase);
    }
    return kernel_;
  }

 private:
  void Execute(const ExtentPhase& phase) { phases_.Found(FindExtent(Samples(), phase.type)); }

  void Execute(const CountPhase& phase) {
    CountPayload(phase.plan, payload_, phase.counters);
    Name(phase.plan, BytesOf(payload_));
  }

  void Execute(const RowsPhase& phase) {
    const size_t sample_bytes = SampleBytes(phase.type);
    const std::span<const std::byte> samples = Samples();
    std::optional<Plan> plan = phase.plan;
    if (plan.has_value() && !phase.reads_samples) {
      CountRows(samples, *plan, *phase.cut, /*threads=*/1, [&](const CountedRow& its) {
        phases_.Counted(its.row, its.counters, samples.first(its.samples * sample_bytes));
      });
      return Name(*plan, phase.cut->Longest(samples.size() / sample_bytes) * sample_bytes);
    }
    bool failed = false;
    std::vector<uint64_t> counters;
    ForEachRow(*phase.cut, samples, sample_bytes,
               [&](uint64_t row, std::span<const std::byte> its) {
                 if (!failed && !phase.plan.has_value()) {
                   plan = phases_.PlanOver(row, FindExtent(its, phase.type), its);
                   failed = !plan.has_value();
                 }
                 if (failed) return;
                 counters.resize(plan->counter_count());
                 const Fragment fragment = FragmentOf(its);
                 CountPayload(*plan, {&fragment, 1}, counters);
                 phases_.Counted(row, counters, its);
               });
    if (!plan.has_value()) return;  // there are no rows
    Name(*plan, phase.cut->Longest(samples.size() / sample_bytes) * sample_bytes);
  }

  void Name(const Plan& plan, size_t bytes) { kernel_ = std::string(KernelName(plan, bytes)); }

  std::span<const std::byte> Samples() {
    if (!samples_.has_value()) samples_ = InOnePiece(payload_, storage_);
    return *samples_;
  }

  Phases& phases_;
  const std::span<const Fragment> payload_;
  std::string storage_;
  std::optional<std::span<const std::byte>> samples_;
  std::string kernel_;
};

}  // namespace

std::string RunPhases(Phases& phases, std::span<const Fragment> payload) {
  return Runner(phases, payload).Run();
}

}  // namespace histogram
