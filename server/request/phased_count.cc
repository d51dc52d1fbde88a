#include "server/request/phased_count.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/reference.h"
#include "kernels/sample.h"
#include "server/request/codec.h"

namespace histogram::server {
namespace {

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

std::optional<Phase> PhasedCount::Next(std::span<const Fragment> payload) {
  switch (step_) {
    case Step::kBegin:
      if (makes_tables_) query_->plan->Get();
      if (!query_->range_of_data) return Count();
      step_ = Step::kRange;
      return ExtentPhase{query_->sample_type};
    case Step::kRange:
      status_ = SetRange(payload);
      if (status_.ok()) return Count();
      break;
    case Step::kCount:
    case Step::kDone:
      break;
  }
  step_ = Step::kDone;
  return std::nullopt;
}

Phase PhasedCount::Count() {
  step_ = Step::kCount;
  plan_ = query_->plan->Now();
  if (!query_->rows.has_value()) {
    counters_.resize(plan_->counter_count());
    return CountPhase{*plan_, counters_};
  }
  rows_.bin_count = plan_->bin_count();
  if (adds_up_) channels_.assign(query_->rows->channels, Tally(*plan_, query_->statistics));
  return RowsPhase{*plan_, &*query_->rows};
}

absl::Status PhasedCount::status() const {
  return step_ == Step::kDone ? status_ : absl::UnknownError("not counted");
}

void PhasedCount::Counted(uint64_t row, std::span<const uint64_t> counters,
                          std::span<const std::byte> samples) {
  const uint64_t count = samples.size() / SampleBytes(query_->sample_type);
  if (adds_up_) {
    channels_[row].Absorb(counters, count);
    channels_[row].See(samples);
  } else if (status_.ok()) {
    status_ = rows_.Append(*query_, *plan_, counters, count,
                           StatisticsOfRow(*query_, *plan_, counters, samples));
  }
}

absl::Status PhasedCount::SetRange(std::span<const Fragment> payload) {
  const uint64_t bytes = BytesOf(payload);
  const bool finite = extent_.has_value() ? extent_->finite : bytes == 0;
  if (!finite) {
    std::string storage;
    return NotFinite(InOnePiece(payload, storage), query_->sample_type);
  }
  double lower = 0, upper = 1;
  if (extent_.has_value()) {
    lower = extent_->least;
    upper = extent_->greatest;
    if (lower == upper) {
      lower -= 0.5;
      upper += 0.5;
    }
  }
  absl::StatusOr<std::shared_ptr<const Query>> made = WithRange(*query_, lower, upper);
  if (!made.ok() && extent_.has_value() && extent_->constant) {
    // Half to either side is less than the doubles there are apart, or leaves no room for the bins.
    const double most = std::numeric_limits<double>::max();
    const double at = std::max(std::fabs(lower), std::fabs(upper));
    const double ulp = at - std::nextafter(at, 0);
    const double half = std::ldexp(ulp, 4) * query_->binning.bin_count();
    made = WithRange(*query_, std::max(lower - half, -most), std::min(upper + half, most));
  }
  if (!made.ok()) return made.status();
  query_ = *std::move(made);
  if (query_->plan->Pays(bytes / SampleBytes(query_->sample_type))) query_->plan->Get();
  return absl::OkStatus();
}

absl::Status PhasedCount::Recount(absl::Span<const Fragment> payload) const {
  const auto mismatch = [](uint64_t row) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("row ", row, " was counted differently by a second kernel; the ",
                                  "answer is withheld"),
                     {.reason = "COUNT_MISMATCH"});
  };
  const Plan& plan = *plan_;
  if (!query_->rows.has_value()) {
    return ReferenceCounters(payload, plan) == counters_ ? absl::OkStatus() : mismatch(0);
  }
  std::string storage;
  absl::Status status;
  ForEachRow(*query_->rows, InOnePiece(payload, storage), SampleBytes(query_->sample_type),
             [&](uint64_t row, std::span<const std::byte> samples) {
               const Fragment fragment = FragmentOf(samples);
               const std::vector<uint64_t> counters = ReferenceCounters({&fragment, 1}, plan);
               const bool same = adds_up_ ? std::ranges::equal(counters, channels_[row].counters())
                                          : SameAnswers(plan, counters, samples, row);
               if (!same) status = mismatch(row);
             });
  return status;
}

// Counts may have been left out; statistics tell of them then.
bool PhasedCount::SameAnswers(const Plan& plan, absl::Span<const uint64_t> counters,
                              std::span<const std::byte> samples, uint64_t row) const {
  RowColumns one;
  if (!one.Append(*query_, plan, counters, samples.size() / SampleBytes(query_->sample_type),
                  StatisticsOfRow(*query_, plan, counters, samples))
           .ok()) {
    return false;
  }
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
