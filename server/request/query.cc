#include "server/request/query.h"

#include <histogram/number_text.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "forms/binning.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/batch.h"
#include "kernels/error.h"
#include "kernels/plan_data.h"
#include "server/base/thresholds.h"
#include "server/request/codec.h"
#include "server/request/query_cache.h"

namespace histogram::server {
namespace {

// The number of the first unknown field of `message` or of a message in it, or 0. Puts the path
// from `message` to the one that has the field before `path`.
int FindUnknown(const google::protobuf::Message& message, std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) return unknown.field(0).number();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* const field = type.field(i);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    assert(!field->is_repeated());  // a Spec has no list of messages
    if (!reflection.HasField(message, field)) continue;
    const int number = FindUnknown(reflection.GetMessage(message, field), path);
    if (number == 0) continue;
    path = absl::StrCat(".", field->name(), path);
    return number;
  }
  return 0;
}

absl::Status RefuseUnknown(const v1::Spec& spec) {
  std::string path;
  const int number = FindUnknown(spec, path);
  if (number == 0) return absl::OkStatus();
  return UnknownField(absl::StrCat("spec", path).c_str(), static_cast<uint32_t>(number));
}

absl::StatusOr<Binning> OrStatus(Result<Binning> binning) {
  if (binning.ok()) return *std::move(binning);
  // The library names a field below the spec's binning, the API one below the request.
  const Error& error = binning.error();
  const std::string path = error.field.empty() ? "spec.binning" : "spec.binning.";
  return MakeError(
      absl::StatusCode::kInvalidArgument, path + error.message,
      {.reason = error.code == ErrorCode::kTooManyBins ? "TOO_MANY_BINS" : "BAD_BINNING",
       .field = path + error.field,
       .limit = error.limit});
}

absl::StatusOr<SampleType> TypeOf(const v1::Spec& spec) {
  const int number = spec.sample_type();
  if (const std::optional<SampleType> type = SampleTypeOf(number); type.has_value()) return *type;
  const SampleTypeInfo& last = kSampleTypeList[kSampleTypes - 1];
  return InvalidField("UNKNOWN_ENUM_VALUE", "spec.sample_type",
                      absl::StrCat(number, " is unknown to this server; it knows UINT8 (1) to ",
                                   ApiName(last.type), " (", last.number, ")"),
                      static_cast<uint64_t>(last.number));
}

absl::Status CheckQuantiles(const v1::Spec& spec) {
  if (static_cast<uint32_t>(spec.quantiles_size()) > kQuantilesMax) {
    return InvalidField("TOO_MANY_QUANTILES", "spec.quantiles",
                        absl::StrCat(spec.quantiles_size(),
                                     " quantiles are more than the limit of ", kQuantilesMax),
                        kQuantilesMax);
  }
  for (int i = 0; i < spec.quantiles_size(); ++i) {
    if (!(spec.quantiles(i) >= 0 && spec.quantiles(i) <= 1)) {  // also refuses NaN
      return InvalidField("BAD_QUANTILE", absl::StrCat("spec.quantiles[", i, "]"),
                          absl::StrCat(NumberText(spec.quantiles(i)), " is not between 0 and 1"),
                          1);
    }
  }
  return absl::OkStatus();
}

absl::Status SetRows(const v1::Spec& spec, Query& query) {
  query.range_of_row = spec.binning().even().range_of_row();
  if (query.range_of_row && !spec.has_rows()) {
    return InvalidField("BAD_BINNING", "spec.binning.even.range_of_row",
                        "it is the range of each row, and spec.rows is absent");
  }
  if (query.range_of_row && spec.edges()) {
    return InvalidField("BAD_BINNING", "spec.edges",
                        "with range_of_row each row has its own; they follow from lower and upper "
                        "of the answer");
  }
  if (!spec.has_rows()) return absl::OkStatus();
  const v1::Rows& rows = spec.rows();
  RowCut& cut = query.rows.emplace();
  cut.channels = std::max(rows.channels(), 1U);
  if (rows.has_windows()) {
    cut.kind = RowCut::Kind::kWindows;
    cut.window = rows.windows().samples();
    cut.step = rows.windows().step();
    if (cut.window == 0) {
      return InvalidField("BAD_ROWS", "spec.rows.windows.samples",
                          "it is 0; a window has at least 1 sample", 1);
    }
  } else if (rows.has_lengths()) {
    cut.kind = RowCut::Kind::kLengths;
    cut.lengths.assign(rows.lengths().samples().begin(), rows.lengths().samples().end());
  }
  if (spec.sparse()) {
    return InvalidField("BAD_ROWS", "spec.sparse",
                        "the counts of rows are not sparse; leave out one of the two");
  }
  return absl::OkStatus();
}

absl::Status SetAnswers(const v1::Spec& spec, Query& query) {
  query.statistics = spec.statistics() || spec.quantiles_size() > 0;
  query.quantiles.assign(spec.quantiles().begin(), spec.quantiles().end());
  query.edges = spec.edges() && query.binning.has_edges();
  query.omit_counts = spec.omit_counts();
  query.sparse = spec.sparse();
  if (spec.statistics_only_size() > 0) query.wanted = 0;
  for (int i = 0; i < spec.statistics_only_size(); ++i) {
    const int number = spec.statistics_only(i);
    if (!v1::Statistic_IsValid(number) || number == v1::STATISTIC_UNSPECIFIED) {
      return InvalidField("UNKNOWN_ENUM_VALUE", absl::StrCat("spec.statistics_only[", i, "]"),
                          absl::StrCat(number, " is not a statistic that this server knows; 1 to ",
                                       static_cast<int>(v1::Statistic_MAX), " are"),
                          static_cast<uint64_t>(v1::Statistic_MAX));
    }
    query.wanted = static_cast<uint8_t>(query.wanted | 1U << (number - 1));
  }
  return absl::OkStatus();
}

// See Query::counter_bytes.
uint64_t CounterBytes(const Query& query) {
  uint64_t numbers = 1;  // a bin: its count
  // The plan's threshold, which only this request uses.
  if (query.range_of_data || query.range_of_row) numbers += 1;
  if (query.sparse) numbers += 2;      // count and number of a bin that is not empty
  if (query.edges) numbers += 1;       // before it is encoded
  if (query.statistics) numbers += 5;  // counts, edges, and weights of bins that are not empty
  if (query.binning.is_identity()) return 0;  // counted where the values are
  const uint64_t slots = internal::SlotCount(query.binning.bin_count());
  return (query.pattern_counters() + numbers * slots) * sizeof(uint64_t);
}

// A GPU computes few even edges itself. Of others it would make the tables for each payload.
void MakePlanOfGpus(Query& query) {
  const bool even = query.binning.has_edges() && query.binning.edge_rule().listed == nullptr;
  if (even && query.binning.bin_count() <= kPlanBinsAtOnceMax) {
    query.plan->KeepFirst();
  } else {
    query.plan->Get();
  }
}

// A server without a CPU backend refuses a query that needs more than its GPUs can hold.
absl::Status CheckGpuLimits(const Query& query, const QueryLimits& limits) {
  const auto refuse = [](const char* reason, const char* field, const std::string& what,
                         uint64_t most) {
    return InvalidField(reason, field,
                        absl::StrCat(what, " are more than a GPU's limit of ", most,
                                     "; a server with a CPU backend counts more"),
                        most);
  };
  const PhaseLimits needs = NeedsOf(query);
  if (needs.row_bins > limits.phases.row_bins) {
    return refuse("TOO_MANY_BINS", "spec.binning", absl::StrCat(needs.row_bins, " bins of a row"),
                  limits.phases.row_bins);
  }
  if (needs.pixel_bytes > limits.phases.pixel_bytes) {
    return refuse("BAD_ROWS", "spec.rows.channels",
                  absl::StrCat(query.rows->channels, " channels of ", ApiName(query.sample_type)),
                  limits.phases.pixel_bytes / SampleBytes(query.sample_type));
  }
  if (query.plan->Now().counter_count() > limits.counters_max) {
    return refuse("TOO_MANY_BINS", "spec.binning",
                  absl::StrCat(query.binning.bin_count(), " bins of ", ApiName(query.sample_type)),
                  limits.counters_max - internal::kOutsideSlots);
  }
  return absl::OkStatus();
}

}  // namespace

PhaseLimits NeedsOf(const Query& query) {
  // Rows over their own ranges are counted one by one.
  if (!query.rows.has_value() || query.range_of_row) return {};
  const bool values = query.sample_type == SampleType::kU8;
  return {.row_bins = values ? kByteValues : query.binning.bin_count(),
          .pixel_bytes = uint64_t{query.rows->channels} * SampleBytes(query.sample_type)};
}

uint64_t Query::ReplyBytes(uint64_t samples) const {
  constexpr uint64_t kFixedPart = 512;  // totals, statistics, receipt, lengths
  constexpr uint64_t kBinNumberMax = 4;
  const uint64_t bins = binning.bin_count();
  uint64_t bytes = kFixedPart + quantiles.size() * sizeof(double);
  if (!omit_counts && !rows.has_value()) {
    bytes += sparse ? std::min(bins, samples) * (sizeof(uint64_t) + kBinNumberMax)
                    : bins * sizeof(uint64_t);
  }
  if (edges) bytes += (bins + 1) * sizeof(double);
  return bytes;
}

absl::StatusOr<std::shared_ptr<const Query>> MakeQuery(std::string_view bytes,
                                                       const QueryLimits& limits) {
  v1::Spec spec;
  if (!spec.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Malformed("spec");
  if (absl::Status s = RefuseUnknown(spec); !s.ok()) return s;
  const absl::StatusOr<SampleType> type = TypeOf(spec);
  if (!type.ok()) return type.status();
  if (absl::Status s = CheckQuantiles(spec); !s.ok()) return s;
  absl::StatusOr<Binning> binning =
      OrStatus(BinningOf(spec.binning(), *type, limits.bin_count_max));
  if (!binning.ok()) return binning.status();

  auto query = std::make_shared<Query>();
  query->Set(*binning, *type);
  query->range_of_data = spec.binning().even().range_of_data();
  if (absl::Status s = SetRows(spec, *query); !s.ok()) return s;
  if (absl::Status s = SetAnswers(spec, *query); !s.ok()) return s;
  if (absl::Status s = CheckGpuLimits(*query, limits); !s.ok()) return s;
  if (!limits.has_cpu && !query->range_of_data && !query->range_of_row) MakePlanOfGpus(*query);
  query->counter_bytes = CounterBytes(*query);
  return query;
}

absl::StatusOr<Binning> BinsOver(const Query& query, double lower, double upper) {
  return OrStatus(Binning::Even(query.binning.bin_count(), lower, upper, kBinCountMax));
}

std::shared_ptr<const Query> WithBins(const Query& query, const Binning& binning) {
  auto made = std::make_shared<Query>(query);
  made->Set(binning, made->sample_type);
  made->range_of_data = false;
  return made;
}

absl::StatusOr<std::shared_ptr<const Query>> MakeQueryCached(std::string_view bytes,
                                                             const QueryLimits& limits) {
  // To compile a binning can take longer than to count 4 KiB (bytes: 1 us and 0.7); specs repeat.
  constexpr size_t kEntries = 8;
  // Of as many edges as few bins have, and quantiles.
  constexpr size_t kKeyBytesMax = (kPlanBinsAtOnceMax + kQuantilesMax + 64) * sizeof(double);
  struct Entry {
    std::string key;
    QueryLimits limits;
    std::shared_ptr<const Query> query;
  };
  thread_local std::array<Entry, kEntries> mine;
  static auto& large = *new QueryCache(kPlanCacheBytesMax);  // never destroyed
  Entry* entry = nullptr;
  if (bytes.size() <= kKeyBytesMax) {
    entry = &mine[bytes.empty() ? 0 : absl::HashOf(bytes) % kEntries];
    if (entry->query != nullptr && entry->key == bytes && entry->limits == limits) {
      return entry->query;
    }
  }
  if (auto found = large.Find(bytes, limits); found != nullptr) return found;
  absl::StatusOr<std::shared_ptr<const Query>> query = MakeQuery(bytes, limits);
  if (!query.ok()) return query;
  const bool has_large_plan =
      (*query)->plan->bytes() > 0 && (*query)->binning.bin_count() > kPlanBinsAtOnceMax;
  if (has_large_plan) return large.Add(bytes, limits, *query);
  if (entry != nullptr) *entry = {std::string(bytes), limits, *query};
  return query;
}

}  // namespace histogram::server
