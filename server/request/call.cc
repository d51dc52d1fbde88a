#include "server/request/call.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {

namespace {

// Four sums at once: additions that do not wait for each other.
uint64_t Sum(absl::Span<const uint64_t> counts) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  const uint64_t* at = counts.data();
  const uint64_t* const end = at + counts.size();
  for (; end - at >= 4; at += 4) {
    a += at[0];
    b += at[1];
    c += at[2];
    d += at[3];
  }
  for (; at != end; ++at) a += *at;
  return a + b + c + d;
}

}  // namespace

absl::Status MakeAnswer(const Plan& plan, const ValueCounts& values, uint64_t samples,
                        Answer& answer) {
  Histogram& h = answer.histogram;
  if (plan.binning.is_identity()) {  // the most frequent question by far: no folding, no copy
    answer.values = &values;
    h.counts.clear();
    h.below = h.above = h.ignored = 0;
  } else {
    answer.values = nullptr;
    FoldInto(values, plan.binning, h);
  }
  const uint64_t counted = Sum(answer.counts()) + h.below + h.above + h.ignored;
  if (counted != samples) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("the counts add up to ", counted, " samples, but ", samples,
                                  " were sent; the answer is withheld"),
                     {.reason = "COUNT_MISMATCH", .limit = samples});
  }
  h.samples = samples;
  answer.statistics.reset();
  if (plan.statistics) {
    answer.statistics = ComputeStatistics(values, plan.binning, plan.quantiles);
  }
  answer.edges.clear();
  if (plan.edges) answer.edges = plan.binning.ComputeEdges();
  return absl::OkStatus();
}

namespace {

// Fraction of the 64-bit numbers that are below the result.
uint64_t ThresholdFor(double fraction) {
  if (!(fraction > 0)) return 0;
  if (fraction >= 1) return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(std::ldexp(fraction, 64));
}

// Spreads a sequence number over all 64-bit numbers (Weyl sequence of the golden ratio), so that
// every run of 1/fraction payloads holds about one that is picked.
uint64_t Spread(uint64_t sequence) { return (sequence + 1) * 0x9E3779B97F4A7C15u; }

}  // namespace

Verifier::Verifier(double fraction) : threshold_(ThresholdFor(fraction)) {}

absl::Status Verifier::Check(absl::Span<const Fragment> fragments, const ValueCounts& counts) {
  if (threshold_ == 0) return absl::OkStatus();
  if (Spread(sequence_.fetch_add(1, std::memory_order_relaxed)) > threshold_) {
    return absl::OkStatus();
  }
  // The plain loop: it shares no code with any kernel that a lane runs.
  ValueCounts recount{};
  for (const Fragment& fragment : fragments) {
    for (const uint8_t value : fragment) ++recount[value];
  }
  for (uint32_t value = 0; value < kByteValues; ++value) {
    if (recount[value] != counts[value]) {
      return MakeError(absl::StatusCode::kInternal,
                       absl::StrCat("value ", value, " was counted ", counts[value],
                                    " times, a second kernel counted ", recount[value],
                                    "; the answer is withheld"),
                       {.reason = "COUNT_MISMATCH", .limit = recount[value]});
    }
  }
  return absl::OkStatus();
}

}  // namespace histogram::server
