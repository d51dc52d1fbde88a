#include "server/request/total.h"

#include <cstddef>
#include <utility>

#include "kernels/plan_data.h"

namespace histogram::server {
namespace {

// What ran is said of the last chunk; times are sums over all of them.
void AddToReceipt(const Job& chunk, Receipt& receipt) {
  BatchReport sum = chunk.report;
  sum.gather_ns += receipt.batch.gather_ns;
  sum.transfer_ns += receipt.batch.transfer_ns;
  sum.kernel_ns += receipt.batch.kernel_ns;
  receipt.batch = std::move(sum);
  receipt.queue_ns += chunk.queue_ns;
}

}  // namespace

void Total::Add(const Query& query, const Job& chunk, std::optional<SampleStatistics> seen) {
  const auto* const whole = static_cast<const WholeCount*>(chunk.work.get());
  if (query.rows.has_value()) {
    const auto& counters = whole->counters();
    if (channels_.empty()) channels_.assign(counters.size(), RowCounter(query));
    for (size_t c = 0; c < channels_.size(); ++c) channels_[c].Merge(counters[c]);
  } else if (query.plan != nullptr) {
    const absl::Span<const uint64_t> slots =
        whole != nullptr ? whole->slots() : absl::MakeConstSpan(chunk.slots);
    slots_.resize(slots.size());
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i] += slots[i];
    if (seen.has_value()) {
      seen_.has_value() ? seen_->Merge(*seen) : void(seen_ = std::move(seen));
    }
  } else {
    for (uint32_t value = 0; value < kByteValues; ++value) values_[value] += chunk.counts[value];
  }
  bytes_ += chunk.bytes;
  ++chunks_;
  AddToReceipt(chunk, receipt_);
}

absl::Status Total::Finish(const Query& query, Answer& answer) {
  const uint64_t samples = bytes_ / SampleBytes(query.sample_type);
  answer.receipt = receipt_;
  answer.rows = nullptr;
  answer.bins.clear();
  if (query.rows.has_value()) {
    if (channels_.empty()) channels_.assign(query.rows->channels, RowCounter(query));
    MakeRowsAnswer(query, columns_, samples, answer);
    return ColumnsOf(query, channels_, columns_);
  }
  if (absl::Status s = FinishOne(query, samples, answer); !s.ok()) return s;
  if (answer.statistics.has_value()) SelectStatistics(query, *answer.statistics);
  if (query.sparse) MakeSparse(answer);
  return absl::OkStatus();
}

absl::Status Total::FinishOne(const Query& query, uint64_t samples, Answer& answer) {
  if (query.plan == nullptr) return MakeAnswer(query, values_, bytes_, answer);
  slots_.resize(internal::SlotCount(query.binning.bin_count()));
  absl::Status status = MakeTypedAnswer(query, slots_, samples, answer);
  if (status.ok() && query.statistics) {
    if (!seen_.has_value()) seen_.emplace(query.plan->Now());
    answer.statistics = seen_->Finish(answer.histogram, query.quantiles);
  }
  return status;
}

}  // namespace histogram::server
