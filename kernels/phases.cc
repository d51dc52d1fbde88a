#include "kernels/phases.h"

#include <string_view>
#include <vector>

#include "kernels/payload.h"

namespace histogram {
namespace {

// Returns the name of the kernel that counted; empty if there are no rows.
std::string_view Execute(const RowsPhase& phase, std::span<const std::byte> samples,
                         Phases& phases) {
  const size_t sample_bytes = SampleBytes(phase.type);
  std::optional<Plan> plan = phase.plan;
  if (plan.has_value() && !phase.reads_samples) {
    CountRows(samples, *plan, *phase.cut, /*threads=*/1, [&](const CountedRow& its) {
      phases.Counted(its.row, its.counters, samples.first(its.samples * sample_bytes));
    });
  } else {
    bool failed = false;
    std::vector<uint64_t> counters;
    ForEachRow(*phase.cut, samples, sample_bytes,
               [&](uint64_t row, std::span<const std::byte> its) {
                 if (!failed && !phase.plan.has_value()) {
                   plan = phases.PlanOver(row, FindExtent(its, phase.type), its);
                   failed = !plan.has_value();
                 }
                 if (failed) return;
                 counters.resize(plan->counter_count());
                 const Fragment fragment = FragmentOf(its);
                 CountPayload(*plan, {&fragment, 1}, counters);
                 phases.Counted(row, counters, its);
               });
  }
  if (!plan.has_value()) return {};
  return KernelName(*plan, phase.cut->Longest(samples.size() / sample_bytes) * sample_bytes);
}

}  // namespace

std::string RunPhases(Phases& phases, std::span<const Fragment> payload) {
  std::string_view kernel;
  std::string storage;
  std::optional<std::span<const std::byte>> joined;
  const auto samples = [&] {
    if (!joined.has_value()) joined = InOnePiece(payload, storage);
    return *joined;
  };
  while (const std::optional<Phase> phase = phases.Next(payload)) {
    if (const auto* const extent = std::get_if<ExtentPhase>(&*phase)) {
      phases.Found(FindExtent(samples(), extent->type));
    } else if (const auto* const count = std::get_if<CountPhase>(&*phase)) {
      CountPayload(count->plan, payload, count->counters);
      kernel = KernelName(count->plan, BytesOf(payload));
    } else {
      kernel = Execute(std::get<RowsPhase>(*phase), samples(), phases);
    }
  }
  return std::string(kernel);
}

}  // namespace histogram
