#include "server/request/admit.h"

#include <cassert>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "server/base/thresholds.h"
#include "server/request/answer.h"
#include "server/request/phased_count.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

// Whether the query can be answered without seeing the samples again.
absl::Status CheckOnePass(const Query& query) {
  if (query.range_of_data || query.range_of_row) {
    const bool row = query.range_of_row;
    return InvalidField(
        "BAD_BINNING", absl::StrCat("spec.binning.even.range_of_", row ? "row" : "data"),
        absl::StrCat("Accumulate sees the samples once, which does not tell ",
                     row ? "the rows' ranges" : "their range", " before; set lower and upper"));
  }
  if (query.rows.has_value() && query.rows->kind != RowCut::Kind::kOne) {
    const char* const field =
        query.rows->kind == RowCut::Kind::kWindows ? "spec.rows.windows" : "spec.rows.lengths";
    return InvalidField("BAD_ROWS", field, "Accumulate takes channels only");
  }
  if (SampleBytes(query.sample_type) > 2 && !query.quantiles.empty()) {
    return InvalidField(
        "BAD_QUANTILE", "spec.quantiles",
        absl::StrCat("Accumulate sees the samples once, which does not tell the quantiles of ",
                     std::string(NameOf(query.sample_type)),
                     "; send the payload as a whole through Compute"));
  }
  return absl::OkStatus();
}

// Columns of one number a row: those of whole numbers but counts, those of statistics, and ranges.
constexpr uint64_t kNumberColumns = 5, kStatistics = std::size(kStatisticFields), kRanges = 2;

// The numbers of a row that are whole, and those that are doubles.
uint64_t WholesOfARow(const Query& query) {
  return kNumberColumns + (query.omit_counts ? 0 : query.binning.bin_count());
}
uint64_t RealsOfARow(const Query& query) {
  const uint64_t statistics = query.statistics ? kStatistics + query.quantiles.size() : 0;
  return statistics + (query.range_of_row ? kRanges : 0);
}

// The number of counters that a row keeps, for limits.
uint64_t CountersOfARow(const Query& query) {
  const uint64_t bins = query.binning.bin_count();
  if (query.sample_type == SampleType::kU8) return kByteValues + bins;
  return kByteValues + 2 * uint64_t{internal::SlotCount(static_cast<uint32_t>(bins))} +
         query.pattern_counters();
}

absl::Status TooMuch(const char* reason, const std::string& what, uint64_t limit) {
  return InvalidField(reason, "spec.rows",
                      absl::StrCat(what, " are more than the limit of ", limit), limit);
}

// Limits rows in number, in what it takes to count them, and in the memory that they take.
// `has_cpu`: a CPU counts them.
absl::Status CheckRows(Method method, const Query& query, uint64_t samples, bool has_cpu,
                       uint64_t reply_bytes_max, ParsedRequest& parsed) {
  const RowCut& cut = *query.rows;
  const Result<uint64_t> stretches = cut.Stretches(samples);
  if (!stretches.ok()) {
    const Error& error = stretches.error();
    return MakeError(
        absl::StatusCode::kInvalidArgument, absl::StrCat("spec.rows.", error.message),
        {.reason = "BAD_ROWS", .field = "spec.rows." + error.field, .limit = error.limit});
  }
  if (*stretches > kRowsMax / cut.channels) {
    return TooMuch("TOO_MANY_ROWS",
                   absl::StrCat(*stretches, " stretches of ", cut.channels, " channels"), kRowsMax);
  }
  const uint64_t rows = *stretches * cut.channels;
  const uint64_t longest = cut.Longest(samples);
  // To make a row's plan takes as long as so many counters, and the steps of a GPU's lane for it
  // (35 us on an H200, e8ddc0b) as so many: else a lane's watchdog would take it for hung.
  constexpr uint64_t kPlanWork = 1024, kStepsWork = 65536;
  const uint64_t own_range = has_cpu ? kPlanWork : kStepsWork;
  const uint64_t counters = CountersOfARow(query) + (query.range_of_row ? own_range : 0);
  // Ranges and quantiles take a pass of their own.
  const uint64_t passes = 1 + (query.range_of_row ? 1 : 0) + (query.needs_order() ? 1 : 0);
  const uint64_t visited = cut.Visited(*stretches, samples) * passes;
  if (visited + rows * counters > kRowWorkMax) {
    return TooMuch("TOO_MANY_ROWS",
                   absl::StrCat(visited, " samples in ", rows, " rows of ", counters, " counters"),
                   kRowWorkMax);
  }
  const uint64_t wholes = WholesOfARow(query), reals = RealsOfARow(query);
  parsed.reply_bytes += rows * (wholes * wire::VarintSize(longest) + reals * sizeof(double));
  if (parsed.reply_bytes > reply_bytes_max) {
    return TooMuch("REPLY_TOO_LARGE", absl::StrCat(parsed.reply_bytes, " bytes of reply"),
                   reply_bytes_max);
  }
  // A part of a payload keeps the counters of all channels; a whole one keeps columns.
  parsed.row_bytes = method == Method::kAccumulate ? rows * counters * sizeof(uint64_t)
                                                   : rows * (wholes + reals) * sizeof(uint64_t);
  // A row of a channel is copied, and the search for quantiles keeps as much as two copies.
  const uint64_t copies = (cut.channels > 1 ? 1 : 0) + (query.needs_order() ? 2 : 0);
  parsed.row_bytes += copies * longest * SampleBytes(query.sample_type);
  return absl::OkStatus();
}

// Limits the reply to a payload that is one row.
absl::Status CheckReply(const Query& query, uint64_t reply_bytes, uint64_t reply_bytes_max) {
  if (reply_bytes <= reply_bytes_max) return absl::OkStatus();
  return InvalidField(
      "REPLY_TOO_LARGE", "spec.binning",
      absl::StrCat("the reply of ", query.binning.bin_count(), " bins may take ", reply_bytes,
                   " bytes, more than the limit of ", reply_bytes_max,
                   "; ask for sparse counts of a shorter payload, or leave out counts or edges"),
      reply_bytes_max);
}

// Whether a lane is to make the tables of the query's plan, for a payload of so many bytes or for
// those after it. Makes them here if that is quick.
bool MakesTables(const Query& query, uint64_t payload_bytes) {
  PlanInUse& plan = *query.plan;
  const uint64_t samples = payload_bytes / SampleBytes(query.sample_type);
  if (!plan.Pays(samples)) return false;
  if (!plan.IsQuick(samples, kPlanBinsAtOnceMax)) return true;
  plan.Get();
  return false;
}

// What a payload is called in errors, and the advice where it is too large.
struct PayloadText {
  const char *field, *advice;
};
constexpr char kUseAccumulate[] = "; send larger ones in chunks through Accumulate";
constexpr PayloadText kPayloadTexts[] = {  // by Method
    {"payload", kUseAccumulate},
    {"request.payload", kUseAccumulate},
    {"chunk", "; send it in smaller chunks"}};

}  // namespace

absl::Status Admit(Method method, absl::Span<const Fragment> message, const AdmissionLimits& limits,
                   Charge charge, ParsedRequest& parsed, std::shared_ptr<const Query>& query) {
  absl::Status s = ParseRequest(method, message, parsed);
  return s.ok() ? AdmitParsed(method, limits, charge, parsed, query) : s;
}

absl::Status AdmitParsed(Method method, const AdmissionLimits& limits, Charge charge,
                         ParsedRequest& parsed, std::shared_ptr<const Query>& query) {
  assert(TraitsOf(method).carries_payloads);
  const auto& [field, advice] = kPayloadTexts[static_cast<size_t>(method)];
  if (parsed.payload_bytes > limits.payload_bytes_max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat(field, ": ", parsed.payload_bytes, " bytes are more than the limit of ",
                     limits.payload_bytes_max, advice),
        {.reason = "PAYLOAD_TOO_LARGE", .field = field, .limit = limits.payload_bytes_max});
  }
  if (query == nullptr) {
    auto made = MakeQueryCached(parsed.spec, limits.query);
    if (!made.ok()) return made.status();
    query = *std::move(made);
  }
  if (method == Method::kAccumulate) {
    if (absl::Status s = CheckOnePass(*query); !s.ok()) return s;
  }
  const uint64_t sample_bytes = SampleBytes(query->sample_type);
  if (parsed.payload_bytes % sample_bytes != 0) {
    return InvalidField("PARTIAL_SAMPLE", field,
                        absl::StrCat(parsed.payload_bytes, " bytes are not a whole number of ",
                                     std::string(NameOf(query->sample_type)), " samples, of ",
                                     sample_bytes, " bytes each"),
                        sample_bytes);
  }
  const uint64_t samples = parsed.payload_bytes / sample_bytes;
  // A chunk does not tell how many samples the whole payload has.
  parsed.reply_bytes = query->ReplyBytes(method == Method::kAccumulate ? UINT64_MAX : samples);
  const uint64_t reply_bytes_max = ReplyBytesMax(limits.query.bin_count_max);
  const absl::Status fits =
      query->rows.has_value()
          ? CheckRows(method, *query, samples, limits.query.has_cpu, reply_bytes_max, parsed)
          : CheckReply(*query, parsed.reply_bytes, reply_bytes_max);
  if (!fits.ok()) return fits;
  return charge(parsed.payload_bytes);
}

void FillJob(const ParsedRequest& parsed, std::shared_ptr<const void> owner,
             const std::shared_ptr<const Query>& query, TimeNs deadline, Job& job, bool adds_up) {
  job.fragments = parsed.payload;
  job.bytes = parsed.payload_bytes;
  job.charge_bytes = job.bytes + parsed.reply_bytes + query->counter_bytes;
  // Once more, in one piece.
  if (query->needs_order() || query->in_phases()) job.charge_bytes += job.bytes;
  if (query->rows.has_value()) job.charge_bytes += parsed.row_bytes;
  const bool makes_tables = !query->range_of_data && MakesTables(*query, parsed.payload_bytes);
  if (makes_tables) job.charge_bytes += query->plan->bytes();
  job.plan = query->plan->Now();
  job.phases = nullptr;
  if (makes_tables || query->in_phases()) {
    job.phases = std::make_shared<PhasedCount>(query, adds_up, makes_tables);
  }
  job.deadline = deadline;
  job.payload_owner = std::move(owner);
}

}  // namespace histogram::server
