#include "server/request/whole_count.h"

#include <histogram/histogram.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/plan_data.h"
#include "kernels/reference.h"
#include "kernels/sample.h"
#include "kernels/typed_payload.h"
#include "server/request/call.h"
#include "server/request/codec.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Columns of one number a row: those but counts, and those but quantiles.
constexpr uint64_t kNumberColumns = std::size(RowColumns::kWhole) - 1;
constexpr uint64_t kStatistics = std::size(RowColumns::kReal) - 1;
static_assert(kStatistics == std::size(kStatisticFields));

// Names the first sample that has no place in a range. REQUIRES: there is one.
absl::Status NotFinite(std::span<const std::byte> samples, SampleType type) {
  return internal::VisitSample(type, [&]<typename S>(S) {
    using Bits = typename S::Bits;
    size_t i = 0;
    double value = 0;
    do {
      value = static_cast<double>(
          S::Widen(internal::LoadBits<Bits>(samples.data() + i++ * sizeof(Bits))));
    } while (std::isfinite(value) && i * sizeof(Bits) < samples.size());
    return InvalidField(
        "NOT_FINITE", "spec.binning.even.range_of_data",
        absl::StrCat("sample ", i - 1, " of the payload is ", value, "; it must be finite"));
  });
}

}  // namespace

// --- RowCounter

RowCounter::RowCounter(const Query& query) : query_(&query) {
  if (query.plan == nullptr) return;
  plan_ = query.plan->Now();
  slots_.resize(internal::SlotCount(query.binning.bin_count()));
  if (query.statistics) seen_.emplace(*plan_);
}

uint64_t RowCounter::Counters(const Query& query) {
  const uint64_t bins = query.binning.bin_count();
  if (query.plan == nullptr && !query.range_of_data) return kByteValues + bins;
  return kByteValues + 2 * uint64_t{internal::SlotCount(static_cast<uint32_t>(bins))} +
         query.pattern_counters();
}

void RowCounter::Add(std::span<const std::byte> samples, bool plainly) {
  samples_ += samples.size() / SampleBytes(query_->sample_type);
  const Fragment fragment(reinterpret_cast<const uint8_t*>(samples.data()), samples.size());
  if (query_->plan == nullptr && plainly) {
    for (const uint8_t value : fragment) ++values_[value];
  } else if (query_->plan == nullptr) {
    AddValues(fragment, values_);
  } else if (plainly) {
    AddSlots(ReferenceSlots({&fragment, 1}, query_->binning, query_->sample_type));
  } else {
    AddTypedPayload(*plan_, {&fragment, 1}, slots_);
  }
  if (seen_.has_value()) seen_->Add(samples);
}

void RowCounter::AddSlots(const std::vector<uint64_t>& slots) {
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i] += slots[i];
}

bool RowCounter::CountedAs(const RowCounter& other) const {
  return samples_ == other.samples_ && values_ == other.values_ && slots_ == other.slots_;
}

void RowCounter::Merge(const RowCounter& more) {
  samples_ += more.samples_;
  for (size_t v = 0; v < values_.size(); ++v) values_[v] += more.values_[v];
  AddSlots(more.slots_);
  if (seen_.has_value()) seen_->Merge(*more.seen_);
}

void RowCounter::Clear() {
  samples_ = 0;
  values_.fill(0);
  std::fill(slots_.begin(), slots_.end(), 0);
  if (seen_.has_value()) seen_.emplace(*plan_);
}

absl::Status RowCounter::Finish(Histogram& histogram) const {
  Answer answer;
  absl::Status status = query_->plan != nullptr ? MakeTypedAnswer(*query_, slots_, samples_, answer)
                                                : MakeAnswer(*query_, values_, samples_, answer);
  if (!status.ok()) return status;
  const absl::Span<const uint64_t> counts = answer.counts();
  std::vector<uint64_t> own(counts.begin(), counts.end());
  histogram = std::move(answer.histogram);
  histogram.counts = std::move(own);
  return absl::OkStatus();
}

Statistics RowCounter::FinishStatistics(const Histogram& histogram) const {
  return seen_.has_value() ? seen_->Finish(histogram, query_->quantiles)
                           : ComputeStatistics(values_, query_->binning, query_->quantiles);
}

// --- RowColumns

void RowColumns::Append(const Query& query, const Histogram& histogram,
                        const Statistics& statistics) {
  ++row_count;
  bin_count = query.binning.bin_count();
  if (!query.omit_counts) {
    counts.insert(counts.end(), histogram.counts.begin(), histogram.counts.end());
  }
  samples.push_back(histogram.samples);
  below.push_back(histogram.below);
  above.push_back(histogram.above);
  ignored.push_back(histogram.ignored);
  nan.push_back(histogram.nan);
  if (!query.statistics) return;
  for (size_t i = 0; i < kStatistics; ++i) {
    const auto& [answer, value] = kStatisticFields[i];
    if (query.wants(answer)) (this->*kReal[i]).push_back((statistics.*value).value_or(kNone));
  }
  for (size_t i = 0; i < query.quantiles.size(); ++i) {
    quantiles.push_back(i < statistics.quantiles.size() ? statistics.quantiles[i] : kNone);
  }
}

uint64_t RowColumns::Bytes(const Query& query, uint64_t rows) {
  uint64_t numbers = kNumberColumns;
  if (!query.omit_counts) numbers += query.binning.bin_count();
  if (query.statistics) numbers += kStatistics + query.quantiles.size();
  return rows * numbers * sizeof(uint64_t);
}

uint64_t RowReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max) {
  uint64_t numbers = kNumberColumns;
  if (!query.omit_counts) numbers += query.binning.bin_count();
  uint64_t bytes = numbers * wire::VarintSize(row_samples_max);
  if (query.statistics) bytes += (kStatistics + query.quantiles.size()) * sizeof(double);
  return rows * bytes;
}

absl::Status ColumnsOf(const Query& query, absl::Span<const RowCounter> counters,
                       RowColumns& columns) {
  columns = {};
  columns.bin_count = query.binning.bin_count();
  Histogram histogram;
  for (const RowCounter& counter : counters) {
    if (absl::Status s = counter.Finish(histogram); !s.ok()) return s;
    columns.Append(query, histogram,
                   query.statistics ? counter.FinishStatistics(histogram) : Statistics{});
  }
  return absl::OkStatus();
}

// --- WholeCount

void WholeCount::Run(absl::Span<const Fragment> payload) {
  status_ = absl::OkStatus();
  if (makes_tables_) query_->plan->Get();
  if (query_->as_a_whole()) {
    std::string storage;
    const std::span<const std::byte> samples = InOnePiece(payload, storage);
    if (query_->range_of_data) status_ = FindRange(samples);
    if (status_.ok() && query_->rows.has_value()) status_ = CountRows(samples);
    if (!status_.ok() || query_->rows.has_value()) return;
  }
  slots_.resize(internal::SlotCount(query_->binning.bin_count()));
  CountTypedPayload(query_->plan->Now(), payload, slots_);
}

std::string WholeCount::kernel() const {
  return std::string(query_->plan != nullptr ? KernelName(query_->plan->Now())
                                             : KernelName(row_bytes_max_));
}

absl::Status WholeCount::FindRange(std::span<const std::byte> samples) {
  const std::optional<Extent> extent = FindExtent(samples, query_->sample_type);
  const bool finite = extent.has_value() ? extent->finite : samples.empty();
  if (!finite) return NotFinite(samples, query_->sample_type);
  double lower = 0, upper = 1;
  if (extent.has_value()) {
    lower = extent->least;
    upper = extent->greatest;
    if (lower == upper) {
      lower -= 0.5;
      upper += 0.5;
    }
  }
  absl::StatusOr<std::shared_ptr<const Query>> made = WithRange(*query_, lower, upper);
  if (!made.ok() && extent.has_value() && extent->constant) {
    // Half to either side is less than the doubles there are apart, or leaves no room for the bins.
    const double most = std::numeric_limits<double>::max();
    const double at = std::max(std::fabs(lower), std::fabs(upper));
    const double ulp = at - std::nextafter(at, 0);
    const double half = std::ldexp(ulp, 4) * query_->binning.bin_count();
    made = WithRange(*query_, std::max(lower - half, -most), std::min(upper + half, most));
  }
  if (!made.ok()) return made.status();
  query_ = *std::move(made);
  if (query_->plan->Pays(samples.size() / SampleBytes(query_->sample_type))) query_->plan->Get();
  return absl::OkStatus();
}

absl::Status WholeCount::CountRows(std::span<const std::byte> samples) {
  rows_ = {};
  rows_.bin_count = query_->binning.bin_count();
  const size_t sample_bytes = SampleBytes(query_->sample_type);
  row_bytes_max_ = query_->rows->Longest(samples.size() / sample_bytes) * sample_bytes;
  if (adds_up_) {
    counters_.assign(query_->rows->channels, RowCounter(*query_));
    ForEachRow(*query_->rows, samples, sample_bytes,
               [&](uint64_t row, std::span<const std::byte> part) { counters_[row].Add(part); });
    return absl::OkStatus();
  }
  RowCounter counter(*query_);
  Histogram histogram;
  absl::Status status;
  ForEachRow(*query_->rows, samples, sample_bytes, [&](uint64_t, std::span<const std::byte> row) {
    if (!status.ok()) return;
    counter.Clear();
    counter.Add(row);
    status = counter.Finish(histogram);
    if (!status.ok()) return;
    rows_.Append(*query_, histogram,
                 query_->statistics ? counter.FinishStatistics(histogram) : Statistics{});
  });
  return status;
}

absl::Status WholeCount::Recount(absl::Span<const Fragment> payload) const {
  const auto mismatch = [](uint64_t row) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("row ", row, " was counted differently by a second kernel; the ",
                                  "answer is withheld"),
                     {.reason = "COUNT_MISMATCH"});
  };
  if (!query_->rows.has_value()) {
    const bool same = ReferenceSlots(payload, query_->binning, query_->sample_type) == slots_;
    return same ? absl::OkStatus() : mismatch(0);
  }
  std::string storage;
  RowCounter counter(*query_);
  absl::Status status;
  ForEachRow(*query_->rows, InOnePiece(payload, storage), SampleBytes(query_->sample_type),
             [&](uint64_t row, std::span<const std::byte> samples) {
               counter.Clear();
               counter.Add(samples, /*plainly=*/true);
               const bool same =
                   adds_up_ ? counter.CountedAs(counters_[row]) : SameAnswers(counter, row);
               if (!same) status = mismatch(row);
             });
  return status;
}

// Counts may have been left out; statistics tell of them then.
bool WholeCount::SameAnswers(const RowCounter& counter, uint64_t row) const {
  RowColumns one;
  if (!ColumnsOf(*query_, {&counter, 1}, one).ok()) return false;
  const auto same = [&](const auto& column, const auto& all) {
    const size_t bytes = column.size() * sizeof(column[0]);  // NaN equals itself
    return bytes == 0 || std::memcmp(column.data(), all.data() + row * column.size(), bytes) == 0;
  };
  bool all_same = true;
  for (const auto column : RowColumns::kWhole) all_same &= same(one.*column, rows_.*column);
  for (const auto column : RowColumns::kReal) all_same &= same(one.*column, rows_.*column);
  return all_same;
}

}  // namespace histogram::server
