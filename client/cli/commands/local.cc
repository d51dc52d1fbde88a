#include <histogram/sample_statistics.h>
#include <histogram/tally.h>
#include <histogram/typed.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/cli/commands/count.h"
#include "client/cli/render/progress.h"

namespace histogram::cli {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;   // counted while they are in the core's cache
constexpr size_t kBlockBytesMax = size_t{8} << 20;  // of a stream
constexpr size_t kSliceBytes = size_t{512} << 20;   // of a file, for each line of progress

std::span<const std::byte> BytesOf(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class LocalCounter {
 public:
  LocalCounter(const Input& input, const v1::Spec& spec, const Plan& plan)
      : input_(input), spec_(spec), plan_(plan), tally_(plan) {}

  absl::StatusOr<Report> Run() {
    const absl::Time begin = absl::Now();
    absl::Status status = input_.status;
    if (status.ok()) status = input_.stream == nullptr ? CountWhole() : CountStream();
    if (!status.ok()) return status;
    const Histogram histogram = tally_.Finish();
    Report report = {input_.name, spec_};
    v1::Histogram& answer = report.histogram;
    SetCounts(histogram, answer);
    if (spec_.edges()) {
      const std::vector<double> edges = plan_.binning().ComputeEdges();
      answer.mutable_edges()->Add(edges.begin(), edges.end());
    }
    if (spec_.statistics() || spec_.quantiles_size() > 0) {
      SetStatistics(StatisticsOf(histogram), *answer.mutable_statistics());
    }
    const absl::Duration took = input_.looked + (absl::Now() - begin);
    report.round_trip_ns =
        static_cast<uint64_t>(std::max(absl::ToInt64Nanoseconds(took), int64_t{0}));
    report.receipt.set_backend("cpu");
    report.receipt.set_kernel(std::string(KernelName(plan_, block_bytes_max_)));
    report.receipt.set_batch_payloads(1);
    report.receipt.set_kernel_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(kernel_)));
    report.receipt.set_total_ns(report.round_trip_ns);
    report.in_process = true;
    return report;
  }

 private:
  absl::Status Add(absl::string_view block, uint32_t threads) {
    if (const size_t size = SampleBytes(plan_.type()); block.size() % size != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(input_.name, " ends within a sample: ", std::string(NameOf(plan_.type())),
                       " samples take ", size, " bytes each"));
    }
    const absl::Time start = absl::Now();
    tally_.Add(BytesOf(block), threads);
    kernel_ += std::max(absl::Now() - start, absl::ZeroDuration());
    block_bytes_max_ = std::max(block_bytes_max_, block.size());
    done_ += block.size();
    return absl::OkStatus();
  }

  absl::Status CountWhole() {
    absl::string_view bytes = input_.bytes;
    Progress progress(input_.name, bytes.size());
    for (; bytes.size() > kSliceBytes; bytes.remove_prefix(kSliceBytes)) {
      (void)Add(bytes.substr(0, kSliceBytes), /*threads=*/0);  // as many as pay
      progress.Update(done_);
    }
    return Add(bytes, /*threads=*/0);
  }

  absl::Status CountStream() {
    Progress progress(input_.name, std::nullopt);
    // Adding up a block's counters should cost little beside counting it.
    std::string buffer(std::clamp(size_t{64} * plan_.counter_count() / kBlockBytes * kBlockBytes,
                                  kBlockBytes, kBlockBytesMax),
                       '\0');
    while (true) {
      const absl::StatusOr<size_t> bytes = ReadNext(input_, absl::MakeSpan(buffer), done_);
      if (!bytes.ok()) return bytes.status();
      if (absl::Status status = Add({buffer.data(), *bytes}, 1); !status.ok()) return status;
      progress.Update(done_);
      // The end: asked for a second time a terminal would wait for the next key.
      if (*bytes < buffer.size()) return absl::OkStatus();
    }
  }

  // The counters of bytes tell all. Of other types only the samples themselves do.
  Statistics StatisticsOf(const Histogram& histogram) const {
    const std::vector<double> quantiles(spec_.quantiles().begin(), spec_.quantiles().end());
    if (plan_.counts_values()) return tally_.FinishStatistics(histogram, quantiles);
    if (histogram.samples == 0) return {};
    return ComputeStatistics(BytesOf(input_.bytes), plan_, histogram, quantiles);
  }

  const Input& input_;
  const v1::Spec& spec_;
  const Plan& plan_;
  Tally tally_;
  uint64_t done_ = 0;
  size_t block_bytes_max_ = 0;
  absl::Duration kernel_;
};

}  // namespace

Results CountInProcess(const v1::Spec& spec, const std::vector<Input>& inputs) {
  const SampleType type = TypeOf(spec);
  const Result<Binning> binning = BinningOf(spec.binning(), type);
  if (!binning.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("spec.binning.", binning.error().message));
  }
  const Result<Plan> plan = Plan::MakeFor(*binning, type, /*samples=*/UINT64_MAX);
  if (!plan.ok()) return absl::InvalidArgumentError(plan.error().message);
  std::vector<absl::StatusOr<Report>> results;
  results.reserve(inputs.size());
  for (const Input& input : inputs) {
    results.push_back(LocalCounter(input, spec, *plan).Run());
  }
  return results;
}

}  // namespace histogram::cli
