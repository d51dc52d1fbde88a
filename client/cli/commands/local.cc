#include "client/cli/commands/local.h"

#include <histogram/histogram.h>
#include <histogram/sample_statistics.h>
#include <histogram/typed.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/local_counter.h"
#include "client/cli/commands/samples.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

absl::StatusOr<Binning> Named(Result<Binning> binning) {
  if (binning.ok()) return *std::move(binning);
  return absl::InvalidArgumentError(absl::StrCat("spec.binning.", binning.error().message));
}

absl::StatusOr<Binning> BinningOf(const v1::Spec& spec) {
  const v1::Binning& binning = spec.binning();
  // Without a range a bin of each byte; of other types the range was found before.
  const bool of_bytes = TypeOf(spec) == SampleType::kU8;
  switch (binning.kind_case()) {
    case v1::Binning::kEven: {
      const auto& even = binning.even();
      return Named(Binning::Even(even.bin_count(),
                                 even.has_lower() ? std::optional(even.lower()) : std::nullopt,
                                 even.has_upper() ? std::optional(even.upper()) : std::nullopt));
    }
    case v1::Binning::kEdges:
      return Named(Binning::Edges(std::span<const double>(
          binning.edges().edges().data(), static_cast<size_t>(binning.edges().edges_size()))));
    case v1::Binning::kAlphabet:
      return Named(Binning::Alphabet(binning.alphabet().first_symbol(),
                                     binning.alphabet().symbol_count(),
                                     binning.alphabet().symbols_per_bin()));
    case v1::Binning::kByteTable:
      return absl::InvalidArgumentError("tables of bytes are counted by servers only");
    case v1::Binning::KIND_NOT_SET:
      break;
  }
  return of_bytes ? Binning::Identity() : Named(Binning::Even(kByteValues, -128.0, 128.0));
}

void SetStatistics(const Statistics& from, v1::Statistics& to) {
  if (from.minimum.has_value()) to.set_minimum(*from.minimum);
  if (from.maximum.has_value()) to.set_maximum(*from.maximum);
  if (from.mean.has_value()) to.set_mean(*from.mean);
  if (from.standard_deviation.has_value()) to.set_standard_deviation(*from.standard_deviation);
  if (from.median.has_value()) to.set_median(*from.median);
  if (from.mode.has_value()) to.set_mode(*from.mode);
  if (from.entropy_bits.has_value()) to.set_entropy_bits(*from.entropy_bits);
  if (from.otsu_threshold.has_value()) to.set_otsu_threshold(*from.otsu_threshold);
  to.mutable_quantiles()->Add(from.quantiles.begin(), from.quantiles.end());
}

// A file's bytes, as long as this lives.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const Input& input) {
    const auto size = SizeOf(input);
    if (!size.ok()) return size.status();
    if (!size->has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(SafeText(input.name),
                       " is read once, which does not tell its median and quantiles; save it as a "
                       "file for --statistics and --quantiles"));
    }
    const absl::StatusOr<InputFile> file = OpenInput(input, -1);
    if (!file.ok()) return file.status();
    MappedFile mapped;
    mapped.bytes_ = **size + input.begin;
    mapped.begin_ = input.begin;
    mapped.memory_ = mmap(nullptr, mapped.bytes_, PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
    if (mapped.memory_ != MAP_FAILED) return mapped;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot map ", SafeText(input.name), ": ", strerror(errno)));
  }
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(begin_, other.begin_);
    return *this;
  }
  ~MappedFile() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }

  std::span<const std::byte> samples() const {
    return std::span(static_cast<const std::byte*>(memory_), bytes_).subspan(begin_);
  }

 private:
  MappedFile() = default;
  void* memory_ = MAP_FAILED;
  size_t bytes_ = 0, begin_ = 0;
};

// Adds what only the samples themselves tell.
absl::Status AddStatistics(const Input& input, const Plan& plan, const Histogram& histogram,
                           const v1::Spec& spec, v1::Histogram& answer) {
  if (histogram.samples == 0) {
    answer.mutable_statistics();
    return absl::OkStatus();
  }
  const absl::StatusOr<MappedFile> file = MappedFile::Open(input);
  if (!file.ok()) return file.status();
  const std::vector<double> quantiles(spec.quantiles().begin(), spec.quantiles().end());
  SetStatistics(ComputeStatistics(file->samples(), plan, histogram, quantiles),
                *answer.mutable_statistics());
  return absl::OkStatus();
}

v1::Histogram AnswerOf(const v1::Spec& spec, const Binning& binning, const Tally& tally) {
  Histogram folded;
  if (tally.typed.has_value()) {
    folded = *tally.typed;
  } else if (TypeOf(spec) == SampleType::kU8) {
    folded = Fold(tally.values, binning);
  } else {  // no block came
    folded.counts.assign(binning.bin_count(), 0);
  }
  v1::Histogram answer;
  answer.mutable_counts()->Add(folded.counts.begin(), folded.counts.end());
  answer.set_samples(folded.samples);
  answer.set_below(folded.below);
  answer.set_above(folded.above);
  answer.set_ignored(folded.ignored);
  answer.set_nan(folded.nan);
  if (spec.edges()) {
    const std::vector<double> edges = binning.ComputeEdges();
    answer.mutable_edges()->Add(edges.begin(), edges.end());
  }
  const bool typed = TypeOf(spec) != SampleType::kU8;
  if (!typed && (spec.statistics() || spec.quantiles_size() > 0)) {
    const std::vector<double> quantiles(spec.quantiles().begin(), spec.quantiles().end());
    SetStatistics(ComputeStatistics(tally.values, binning, quantiles),
                  *answer.mutable_statistics());
  }
  return answer;
}

}  // namespace

absl::StatusOr<std::vector<absl::StatusOr<Report>>> CountInProcess(const v1::Spec& spec,
                                                                   const std::vector<Input>& inputs,
                                                                   int standard_input,
                                                                   absl::Time deadline,
                                                                   Progress& progress) {
  const absl::StatusOr<Binning> binning = BinningOf(spec);
  if (!binning.ok()) return binning.status();
  std::optional<Plan> plan;
  if (TypeOf(spec) != SampleType::kU8) {
    Result<Plan> made = Plan::Make(*binning, TypeOf(spec));
    if (!made.ok()) return absl::InvalidArgumentError(made.error().message);
    plan = *std::move(made);
  }
  const std::vector<Tally> tallies = CountValuesOf(inputs, plan.has_value() ? &*plan : nullptr,
                                                   standard_input, deadline, progress);
  std::vector<absl::StatusOr<Report>> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tally& tally = tallies[i];
    if (!tally.status.ok()) {
      results.emplace_back(tally.status);
      continue;
    }
    Report report = {inputs[i].name, spec, AnswerOf(spec, *binning, tally)};
    if (plan.has_value() && (spec.statistics() || spec.quantiles_size() > 0)) {
      const absl::Status status = AddStatistics(
          inputs[i], *plan, tally.typed.value_or(EmptyHistogram(*plan)), spec, report.histogram);
      if (!status.ok()) {
        results.emplace_back(status);
        continue;
      }
    }
    report.receipt.set_backend("cpu");
    report.receipt.set_kernel(
        std::string(plan.has_value() ? KernelName(*plan) : KernelName(tally.block_bytes_max)));
    report.receipt.set_batch_payloads(1);
    report.receipt.set_kernel_ns(tally.kernel_ns);
    report.round_trip_ns = static_cast<uint64_t>(
        std::max(absl::ToInt64Nanoseconds(tally.end - tally.begin), int64_t{0}));
    report.receipt.set_total_ns(report.round_trip_ns);
    report.threads = tally.threads.size();
    results.emplace_back(std::move(report));
  }
  return results;
}

}  // namespace histogram::cli
