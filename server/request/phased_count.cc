#include "server/request/phased_count.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/reference.h"
#include "kernels/sample.h"
#include "server/request/answer.h"
#include "server/request/codec.h"

namespace histogram::server {
namespace {

// Names the first sample that has no place in a range. REQUIRES: there is one. `whole` has the
// samples, and is asked for the range by `field`.
absl::Status NotFinite(std::span<const std::byte> samples, SampleType type, const char* field,
                       const std::string& whole) {
  return internal::VisitSample(type, [&]<typename S>(S) {
    using Bits = typename S::Bits;
    size_t i = 0;
    double value = 0;
    do {
      value = static_cast<double>(
          S::Widen(internal::LoadBits<Bits>(samples.data() + i++ * sizeof(Bits))));
    } while (std::isfinite(value) && i * sizeof(Bits) < samples.size());
    return InvalidField(
        "NOT_FINITE", field,
        absl::StrCat("sample ", i - 1, " of ", whole, " is ", value, "; it must be finite"));
  });
}

// The query's bins over the range of samples, all of which are finite; over [0, 1] if there are
// none.
absl::StatusOr<Binning> BinsOverExtent(const Query& query, const std::optional<Extent>& extent) {
  if (!extent.has_value()) return BinsOver(query, 0, 1);
  double lower = extent->least, upper = extent->greatest;
  if (lower == upper) {
    lower -= 0.5;
    upper += 0.5;
  }
  absl::StatusOr<Binning> binning = BinsOver(query, lower, upper);
  if (binning.ok() || !extent->constant) return binning;
  // The doubles there are more than a half apart, or too far apart for so many bins between.
  const double most = std::numeric_limits<double>::max();
  const double at = std::max(std::fabs(lower), std::fabs(upper));
  const double ulp = at - std::nextafter(at, 0);
  const double half = std::ldexp(ulp, 4) * query.binning.bin_count();
  return BinsOver(query, std::max(lower - half, -most), std::min(upper + half, most));
}

// The statistics that the query asks for, of a row that is at hand as a whole.
Statistics StatisticsOfRow(const Query& query, const Plan& plan,
                           absl::Span<const uint64_t> counters,
                           std::span<const std::byte> samples) {
  if (!query.statistics) return {};
  Histogram histogram;
  if (!plan.counts_values()) {
    internal::FoldCounters(plan, counters, histogram);
    histogram.counts.assign(counters.begin(), counters.begin() + plan.bin_count());
  }
  const Fragment fragment = FragmentOf(samples);
  return StatisticsOfPayload(plan, {&fragment, 1}, counters, histogram, query.needs_order(),
                             query.quantiles);
}

// Whether `one` has the answers of this row of `all`.
bool IsRow(const v1::RowAnswers& one, const v1::RowAnswers& all, uint64_t row) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *v1::RowAnswers::GetReflection();
  // NaN equals itself.
  const auto bits = [&](const v1::RowAnswers& rows, const FieldDescriptor* column, int i) {
    if (i >= reflection.FieldSize(rows, column)) return uint64_t{0};  // as of a column left out
    return column->cpp_type() == FieldDescriptor::CPPTYPE_UINT64
               ? reflection.GetRepeatedUInt64(rows, column, i)
               : std::bit_cast<uint64_t>(reflection.GetRepeatedDouble(rows, column, i));
  };
  const google::protobuf::Descriptor& type = *v1::RowAnswers::descriptor();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor* const column = type.field(f);
    if (!column->is_repeated()) continue;
    const int width = std::max(1, reflection.FieldSize(one, column));
    for (int i = 0; i < width; ++i) {
      const int in_all = static_cast<int>(row) * width + i;
      if (bits(one, column, i) != bits(all, column, in_all)) return false;
    }
  }
  return true;
}

}  // namespace

absl::Status AppendRow(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                       uint64_t its_samples, const Statistics& statistics, v1::RowAnswers& rows) {
  const uint64_t row = rows.row_count();
  const uint64_t counted = std::reduce(counters.begin(), counters.end(), uint64_t{0});
  if (counted != its_samples) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("row ", row, ": the counts add up to ", counted,
                                  " samples, but it has ", its_samples, "; the answer is withheld"),
                     {.reason = "COUNT_MISMATCH", .limit = its_samples});
  }
  rows.set_row_count(row + 1);
  rows.set_bin_count(plan.bin_count());
  Histogram histogram;
  internal::FoldCounters(plan, counters, histogram);
  if (!query.omit_counts) {
    const absl::Span<const uint64_t> bins = plan.counts_bins()
                                                ? counters.first(plan.bin_count())
                                                : absl::MakeConstSpan(histogram.counts);
    rows.mutable_counts()->Add(bins.begin(), bins.end());
  }
  rows.add_samples(its_samples);
  const auto add_outside = [row](uint64_t number, google::protobuf::RepeatedField<uint64_t>& to) {
    if (number == 0 && to.empty()) return;  // a column of zeros is not sent
    to.Resize(static_cast<int>(row), 0);
    to.Add(number);
  };
  add_outside(histogram.below, *rows.mutable_below());
  add_outside(histogram.above, *rows.mutable_above());
  add_outside(histogram.ignored, *rows.mutable_ignored());
  add_outside(histogram.nan, *rows.mutable_nan());
  if (query.range_of_row) {
    rows.add_lower(plan.binning().edge(0));
    rows.add_upper(plan.binning().edge(plan.bin_count()));
  }
  if (!query.statistics) return absl::OkStatus();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  google::protobuf::RepeatedField<double>* const columns[std::size(kStatisticFields)] = {
      rows.mutable_minimum(),      rows.mutable_maximum(),
      rows.mutable_mean(),         rows.mutable_standard_deviation(),
      rows.mutable_median(),       rows.mutable_mode(),
      rows.mutable_entropy_bits(), rows.mutable_otsu_threshold()};
  for (size_t i = 0; i < std::size(kStatisticFields); ++i) {
    const auto& [answer, value] = kStatisticFields[i];
    if (query.wants(answer)) columns[i]->Add((statistics.*value).value_or(kNone));
  }
  for (size_t i = 0; i < query.quantiles.size(); ++i) {
    rows.add_quantiles(i < statistics.quantiles.size() ? statistics.quantiles[i] : kNone);
  }
  return absl::OkStatus();
}

absl::Status AppendRow(const Query& query, const Tally& tally, v1::RowAnswers& rows) {
  return AppendRow(query, tally.plan(), tally.counters(), tally.samples(),
                   query.statistics ? tally.FinishStatistics(query.quantiles) : Statistics(), rows);
}

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
  if (query_->range_of_row) {
    rows_.set_bin_count(query_->binning.bin_count());
    return RowsPhase{.type = query_->sample_type, .cut = &*query_->rows, .plan = std::nullopt};
  }
  plan_ = query_->plan->Now();
  if (!query_->rows.has_value()) {
    counters_.resize(plan_->counter_count());
    return CountPhase{*plan_, counters_};
  }
  rows_.set_bin_count(plan_->bin_count());
  if (adds_up_) channels_.assign(query_->rows->channels, Tally(*plan_, query_->statistics));
  return RowsPhase{.type = query_->sample_type,
                   .cut = &*query_->rows,
                   .plan = plan_,
                   .reads_samples = query_->statistics && !plan_->counts_values()};
}

absl::Status PhasedCount::status() const {
  return step_ == Step::kDone ? status_ : absl::UnknownError("not counted");
}

std::optional<Plan> PhasedCount::PlanOver(uint64_t row, const std::optional<Extent>& extent,
                                          std::span<const std::byte> samples) {
  const bool finite = extent.has_value() ? extent->finite : samples.empty();
  if (!finite) {
    status_ = NotFinite(samples, query_->sample_type, "spec.binning.even.range_of_row",
                        absl::StrCat("row ", row));
    return std::nullopt;
  }
  const absl::StatusOr<Binning> binning = BinsOverExtent(*query_, extent);
  if (binning.ok()) {
    plan_ = PlanOfRow(*binning, samples);
    return plan_;
  }
  const absl::Status& failed = binning.status();
  status_ = MakeError(failed.code(), absl::StrCat("row ", row, ": ", failed.message()),
                      GetErrorDetail(failed));
  return std::nullopt;
}

Plan PhasedCount::PlanOfRow(const Binning& binning, std::span<const std::byte> samples) const {
  const SampleType type = query_->sample_type;
  return *Plan::MakeFor(binning, type, samples.size() / SampleBytes(type));
}

void PhasedCount::Counted(uint64_t row, std::span<const uint64_t> counters,
                          std::span<const std::byte> samples) {
  const uint64_t count = samples.size() / SampleBytes(query_->sample_type);
  if (adds_up_) {
    channels_[row].Absorb(counters, count);
    channels_[row].See(samples);
  } else if (status_.ok()) {
    status_ = AppendRow(*query_, *plan_, counters, count,
                        StatisticsOfRow(*query_, *plan_, counters, samples), rows_);
  }
}

absl::Status PhasedCount::SetRange(std::span<const Fragment> payload) {
  const uint64_t bytes = BytesOf(payload);
  const bool finite = extent_.has_value() ? extent_->finite : bytes == 0;
  if (!finite) {
    std::string storage;
    return NotFinite(InOnePiece(payload, storage), query_->sample_type,
                     "spec.binning.even.range_of_data", "the payload");
  }
  const absl::StatusOr<Binning> binning = BinsOverExtent(*query_, extent_);
  if (!binning.ok()) return binning.status();
  query_ = WithBins(*query_, *binning);
  if (query_->plan->Pays(bytes / SampleBytes(query_->sample_type))) query_->plan->Get();
  return absl::OkStatus();
}

absl::Status PhasedCount::Recount(absl::Span<const Fragment> payload) const {
  const auto mismatch = [](uint64_t row) {
    return MakeError(
        absl::StatusCode::kInternal,
        absl::StrCat("row ", row,
                     " was counted differently by plain loops; the answer is withheld"),
        {.reason = "COUNT_MISMATCH"});
  };
  if (!query_->rows.has_value()) {
    return ReferenceCounters(payload, *plan_) == counters_ ? absl::OkStatus() : mismatch(0);
  }
  std::string storage;
  absl::Status status;
  ForEachRow(*query_->rows, InOnePiece(payload, storage), SampleBytes(query_->sample_type),
             [&](uint64_t row, std::span<const std::byte> samples) {
               Plan plan = plan_.value_or(Plan());
               if (query_->range_of_row) {
                 const auto binning = BinsOver(*query_, rows_.lower(static_cast<int>(row)),
                                               rows_.upper(static_cast<int>(row)));
                 plan = PlanOfRow(*binning, samples);
               }
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
  v1::RowAnswers one;
  return AppendRow(*query_, plan, counters, samples.size() / SampleBytes(query_->sample_type),
                   StatisticsOfRow(*query_, plan, counters, samples), one)
             .ok() &&
         IsRow(one, rows_, row);
}

}  // namespace histogram::server
