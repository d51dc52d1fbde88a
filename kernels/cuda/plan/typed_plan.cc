#include "kernels/cuda/plan/typed_plan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/plan/bin_rules.h"
#include "kernels/float_mode.h"
#include "kernels/rounded.h"
#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

// Five parts read f32 at 18 % of what the device reads, whatever the data; a partition, for any
// number of bins, at 12 to 19 % (H200, d727295).
constexpr uint32_t kTablePartsMax = 5;

// Tables begin at multiples of this.
constexpr size_t kTableAlignment = 16;

// Adds a table; returns its offset, as the pointer that BinsAt moves.
template <typename T>
const T* Append(const std::vector<T>& table, std::vector<uint8_t>& tables) {
  const size_t at = (tables.size() + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
  tables.resize(at + table.size() * sizeof(T));
  std::memcpy(tables.data() + at, table.data(), table.size() * sizeof(T));
  return reinterpret_cast<const T*>(at);
}

template <typename T>
const T* Moved(const T* offset, const uint8_t* tables) {
  return reinterpret_cast<const T*>(tables + reinterpret_cast<uintptr_t>(offset));
}

template <typename C>
TypedBins<C> MakeEven(SampleType type, const EvenEdges& edges) {
  TypedBins<C> typed;
  typed.even = edges;
  typed.bins = edges.bins;
  const std::optional<C> lower = internal::Rounded<C, /*kUp=*/true>(edges.at(0));
  const std::optional<C> upper = internal::Rounded<C, /*kUp=*/false>(edges.upper);
  typed.all_below = !lower.has_value();
  if (lower.has_value()) typed.lower = *lower;
  if (lower.has_value() && upper.has_value() && *lower <= *upper) {
    typed.upper = *upper;
    // Bins below `low` have a threshold that is at most `upper`, bins from `high` on have none.
    uint32_t low = 0, high = edges.bins;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const std::optional<C> threshold = internal::Rounded<C, /*kUp=*/true>(edges.at(middle));
      const bool reached = threshold.has_value() && *threshold <= *upper;
      (reached ? low : high) = reached ? middle + 1 : middle;
    }
    typed.reached = low;
  }
  if (SampleBytes(type) < 4) return typed;
  typed.by = FindBy::kGuess;
  if (typed.reached == 0) return typed;  // with `sure` 0: lower and upper may be no bounds
  SetEvenGuess(typed, static_cast<double>(*lower));
  return typed;
}

}  // namespace

template <typename C>
void TypedPlan::Fill(const Plan& plan, const internal::Bins<C>& bins) {
  TypedBins<C> typed;
  typed.lower = bins.lower;
  typed.upper = bins.upper;
  typed.bins = plan.bin_count();
  typed.reached = static_cast<uint32_t>(bins.thresholds.size());
  typed.all_below = bins.all_below;
  if (typed.reached > 0) {
    typed.by = ChooseRule(plan, bins, typed);
    auto values = bins.thresholds;
    if constexpr (std::is_floating_point_v<C>) {
      values.push_back(std::numeric_limits<C>::quiet_NaN());
      const std::vector<uint16_t> cells =
          typed.by == FindBy::kKeys ? MakeCells(bins, typed) : std::vector<uint16_t>();
      if (!cells.empty()) {
        typed.by = FindBy::kCells;
        typed.cells = Append(cells, tables_);
      }
    }
    typed.thresholds = Append(values, tables_);
    if (typed.by == FindBy::kKeys) {
      const internal::Cells cells = internal::MakeKeyCells(bins);
      typed.candidates = Append(cells.first, tables_);
      typed.cell_shift = cells.shift;
    }
  }
  if (SampleBytes(type_) == 1) {
    const std::vector<uint32_t>& slots = plan.data().slot_of_pattern;
    std::vector<uint32_t> values(kByteValues);
    std::iota(values.begin(), values.end(), 0);
    typed.slot_of = Append(slots, tables_);
    typed.bin_for_each_byte = typed.bins == kByteValues && slots == values;
  }
  bins_ = typed;
}

TypedPlan::TypedPlan(const Plan& plan) : type_(plan.type()) {
  // A plan without tables has edges, so making them does not fail.
  const Plan whole = plan.has_tables() ? plan : *Plan::Make(plan.binning(), plan.type());
  const internal::FloatMode mode;
  std::visit([&](const auto& bins) { Fill(whole, bins); }, whole.data().bins);
  assert(tables_.size() <= TableBytesMax(whole.bin_count()));
}

std::shared_ptr<const TypedPlan> TypedPlan::Of(const Plan& plan) {
  if (!plan.has_tables()) return std::make_shared<const TypedPlan>(plan);
  const internal::PlanData& data = plan.data();
  std::call_once(data.for_devices_made,
                 [&] { data.for_devices = std::make_shared<const TypedPlan>(plan); });
  return std::static_pointer_cast<const TypedPlan>(data.for_devices);
}

AnyTypedBins TypedPlan::BinsAt(const uint8_t* tables) const {
  AnyTypedBins moved = bins_;
  std::visit(
      [this, tables](auto& bins) {
        bins.thresholds = Moved(bins.thresholds, tables);
        bins.cells = Moved(bins.cells, tables);
        bins.candidates = Moved(bins.candidates, tables);
        if (SampleBytes(type_) == 1) bins.slot_of = Moved(bins.slot_of, tables);
      },
      moved);
  return moved;
}

uint64_t TableBytesMax(uint64_t bins) {
  constexpr uint64_t kCandidatesMax = (uint64_t{1} << 16) + 1;  // of internal::MakeKeyCells
  const uint64_t lookup =
      std::max(kCandidatesMax * sizeof(uint32_t), (kCellsMax + 1) * sizeof(uint16_t));
  const uint64_t slots = kByteValues * sizeof(uint32_t);
  return (bins + 1) * sizeof(uint64_t) + lookup + slots + 2 * kTableAlignment;
}

uint64_t WorkspaceBytes(uint32_t bins, uint64_t samples, const DeviceTraits& device) {
  return TableParts(bins, device) > kTablePartsMax ? PartitionBytes(bins, samples) : 0;
}

absl::Status EnqueueTyped(const TypedLaunch& launch, const AnyTypedBins& bins) {
  const uint64_t least = WorkspaceBytes(BinCount(bins), 1, *launch.device);
  return least > 0 && launch.workspace_bytes >= least ? EnqueuePartition(launch, bins)
                                                      : EnqueueTable(launch, bins);
}

absl::StatusOr<DevicePlan> DevicePlan::Make(const Plan& plan) {
  if (plan.counts_values()) {
    return absl::InvalidArgumentError("plan: it is OfBytes; Plan::Make makes one between edges");
  }
  const TypedPlan typed(plan);
  absl::StatusOr<DeviceBuffer> tables =
      DeviceBuffer::Holding(typed.tables().data(), typed.tables().size());
  if (!tables.ok()) return tables.status();
  const AnyTypedBins bins = typed.BinsAt(tables->get());
  return DevicePlan{.tables = *std::move(tables), .bins = bins};
}

bool EvenBinsFit(SampleType type, uint32_t bins, const DeviceTraits& device) {
  const uint64_t compared = SampleBytes(type) == 8 ? 8 : 4;
  constexpr uint64_t kLine = 32 * sizeof(uint32_t);
  const uint64_t bytes = uint64_t{bins} * (sizeof(uint32_t) + compared);
  return bytes + 2 * kLine + kEvenStaticBytes <= TableRoom(device);
}

AnyTypedBins MakeEvenBins(SampleType type, const EvenEdges& edges) {
  const internal::FloatMode mode;
  return internal::VisitSample(type, [&]<typename S>(S) -> AnyTypedBins {
    return MakeEven<typename S::Compare>(type, edges);
  });
}

}  // namespace histogram::cuda
