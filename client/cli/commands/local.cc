#include <histogram/sample_statistics.h>
#include <histogram/tally.h>
#include <histogram/typed.h>
#include <histogram/usable_cores.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/commands/count.h"
#include "client/cli/files.h"

namespace histogram::cli {
namespace {

// What was counted of one input so far, or of a piece of it.
struct Counted {
  absl::Status status;
  Tally tally;
  absl::Duration kernel;
  size_t block_bytes_max = 0;
  std::set<size_t> threads;
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();

  explicit Counted(const Plan& plan) : tally(plan) {}

  void Add(const Counted& piece) {
    if (status.ok()) status = piece.status;
    tally.Merge(piece.tally);
    kernel += piece.kernel;
    block_bytes_max = std::max(block_bytes_max, piece.block_bytes_max);
    threads.insert(piece.threads.begin(), piece.threads.end());
    begin = std::min(begin, piece.begin);
    end = std::max(end, piece.end);
  }
};

constexpr size_t kBlockBytes = size_t{256} << 10;    // counted while they are in the core's cache
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // what a thread takes at a time
constexpr uint64_t kThreadBytesMin = uint64_t{4} << 20;  // less does not pay for another thread
constexpr uint64_t kToTheEnd = std::numeric_limits<uint64_t>::max();

// Threads claim pieces in the inputs' order; each counts its piece block by block.
class LocalCounter {
 public:
  LocalCounter(const std::vector<Input>& inputs, const Plan& plan, absl::Time deadline,
               Progress& progress)
      : inputs_(inputs),
        plan_(plan),
        // Adding up a block's counters should cost little of counting it.
        block_bytes_(
            std::clamp<size_t>(size_t{64} * plan.counter_count() / kBlockBytes * kBlockBytes,
                               kBlockBytes, kPieceBytes)),
        deadline_(deadline),
        progress_(progress),
        counted_(inputs.size(), Counted(plan)) {}

  std::vector<Counted> Run() {
    const uint64_t wanted = std::min<uint64_t>(UsableCores(), Begin());
    std::vector<std::thread> threads;
    try {
      while (threads.size() + 1 < wanted)
        threads.emplace_back([this, t = threads.size()] { Work(t + 1); });
    } catch (const std::system_error&) {
      // The system allows no more threads: those that are there do it all.
    }
    Work(0);
    for (std::thread& thread : threads) thread.join();
    progress_.Clear();
    absl::MutexLock lock(&mutex_);
    return std::move(counted_);
  }

 private:
  struct Piece {
    size_t input = 0;
    std::optional<uint64_t> offset = std::nullopt;  // absent: all that comes, in its order
    uint64_t bytes = kToTheEnd;
  };

  // Cuts the inputs into pieces; returns how many threads are useful.
  uint64_t Begin() {
    bool all_known = true;
    uint64_t known = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto size = SizeOf(inputs_[i]);
      if (!size.ok()) {
        absl::MutexLock lock(&mutex_);
        counted_[i].status = size.status();
      } else if (!size->has_value()) {
        pieces_.push_back({i, std::nullopt, inputs_[i].limit});
        all_known = false;
      } else {
        known += **size;
        for (uint64_t at = 0; at == 0 || at < **size; at += kPieceBytes) {
          pieces_.push_back({i, at, std::min(kPieceBytes, **size - at)});
        }
      }
    }
    progress_.Begin(inputs_.size() == 1 ? inputs_[0].name : absl::StrCat(inputs_.size(), " inputs"),
                    all_known ? std::optional(known) : std::nullopt);
    return std::min<uint64_t>(pieces_.size(), 1 + known / kThreadBytesMin);
  }

  void Work(size_t thread) {
    std::string buffer;
    for (size_t at = next_++; at < pieces_.size(); at = next_++) {
      Counted counted(plan_);
      counted.begin = absl::Now();
      counted.threads = {thread};
      counted.status = CountPiece(pieces_[at], thread == 0, buffer, counted);
      counted.end = absl::Now();
      absl::MutexLock lock(&mutex_);
      counted_[pieces_[at].input].Add(counted);
    }
  }

  // `draws`: whether this thread draws the progress.
  absl::Status CountPiece(const Piece& piece, bool draws, std::string& buffer, Counted& counted) {
    const Input& input = inputs_[piece.input];
    const absl::StatusOr<InputFile> file = OpenInput(input);
    if (!file.ok()) return file.status();
    for (uint64_t done = 0; done < piece.bytes;) {
      if (absl::Now() > deadline_) return absl::DeadlineExceededError("");
      const size_t room = static_cast<size_t>(std::min<uint64_t>(block_bytes_, piece.bytes - done));
      absl::string_view block;
      if (input.bytes.has_value()) {
        block = absl::string_view(*input.bytes).substr(*piece.offset + done, room);
      } else {
        buffer.resize(block_bytes_);
        std::optional<uint64_t> offset = piece.offset;
        if (offset.has_value()) *offset += input.begin + done;
        const absl::Span<char> into = absl::MakeSpan(buffer).first(room);
        const absl::StatusOr<size_t> bytes =
            offset.has_value() ? ReadFully(**file, into, input.name, deadline_, offset)
                               : ReadNext(input, *file, into, done, deadline_);
        if (!bytes.ok()) return bytes.status();
        block = absl::string_view(buffer).substr(0, *bytes);
      }
      if (const size_t size = SampleBytes(plan_.type()); block.size() % size != 0) {
        return absl::FailedPreconditionError(
            absl::StrCat(input.name, " ends within a sample: ", std::string(NameOf(plan_.type())),
                         " samples take ", size, " bytes each"));
      }
      const absl::Time start = absl::Now();
      counted.tally.Add(std::as_bytes(std::span(block.data(), block.size())));
      counted.kernel += std::max(absl::Now() - start, absl::ZeroDuration());
      counted.block_bytes_max = std::max(counted.block_bytes_max, block.size());
      done += block.size();
      const uint64_t all = bytes_done_.fetch_add(block.size(), std::memory_order_relaxed);
      if (draws) progress_.Update(all + block.size());
      // The end: asked for a second time a terminal would wait for the next key.
      if (block.size() == room) continue;
      if (!piece.offset.has_value() && input.limit == kToTheEnd) break;
      return CutOff(input);
    }
    return absl::OkStatus();
  }

  const std::vector<Input>& inputs_;
  const Plan plan_;
  const size_t block_bytes_;
  const absl::Time deadline_;
  Progress& progress_;
  std::vector<Piece> pieces_;     // written before the threads start
  std::atomic<size_t> next_ = 0;  // of pieces_: what nobody has begun
  std::atomic<uint64_t> bytes_done_ = 0;

  absl::Mutex mutex_;
  std::vector<Counted> counted_ ABSL_GUARDED_BY(mutex_);
};

// The counters of bytes tell all. Of other types only the samples themselves do.
absl::StatusOr<Statistics> StatisticsOfInput(const Input& input, const v1::Spec& spec,
                                             const Tally& tally, const Histogram& histogram) {
  const Plan& plan = tally.plan();
  const std::vector<double> quantiles(spec.quantiles().begin(), spec.quantiles().end());
  if (plan.counts_values()) return tally.FinishStatistics(histogram, quantiles);
  if (histogram.samples == 0) return Statistics();
  if (input.bytes.has_value()) {
    return ComputeStatistics(std::as_bytes(std::span(*input.bytes)), plan, histogram, quantiles);
  }
  const auto size = SizeOf(input);
  if (!size.ok()) return size.status();
  if (!size->has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(input.name,
                     " is read once, which does not tell its median and quantiles; save it as a "
                     "file for --statistics and --quantiles"));
  }
  const absl::StatusOr<InputFile> file = OpenInput(input);
  if (!file.ok()) return file.status();
  // The file may have grown since.
  const uint64_t counted = histogram.samples * SampleBytes(plan.type());
  if (**size < counted) return CutOff(input);
  const size_t bytes = counted + input.begin;
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, **file, 0);
  if (memory == MAP_FAILED) return FileError("map", input.name);
  const absl::Cleanup unmap = [&] { munmap(memory, bytes); };
  // The memory behind the end of a file that is cut now is gone, and a signal says so.
  static const std::string* message = nullptr;
  const std::string cut = absl::StrCat("histogram: ", SafeText(CutOff(input).message()), "\n");
  message = &cut;
  std::signal(SIGBUS, [](int) {
    (void)!write(STDERR_FILENO, message->data(), message->size());
    _exit(1);
  });
  const absl::Cleanup as_ever = [] { std::signal(SIGBUS, SIG_DFL); };
  const std::span samples(static_cast<const std::byte*>(memory), bytes);
  return ComputeStatistics(samples.subspan(input.begin), plan, histogram, quantiles);
}

absl::StatusOr<Report> ReportOf(const Input& input, const v1::Spec& spec, const Counted& counted) {
  if (!counted.status.ok()) return counted.status;
  const Plan& plan = counted.tally.plan();
  const Histogram histogram = counted.tally.Finish();
  Report report = {input.name, spec};
  v1::Histogram& answer = report.histogram;
  SetCounts(histogram, answer);
  if (spec.edges()) {
    const std::vector<double> edges = plan.binning().ComputeEdges();
    answer.mutable_edges()->Add(edges.begin(), edges.end());
  }
  const absl::Time added_up = absl::Now();
  if (spec.statistics() || spec.quantiles_size() > 0) {
    const auto statistics = StatisticsOfInput(input, spec, counted.tally, histogram);
    if (!statistics.ok()) return statistics.status();
    SetStatistics(*statistics, *answer.mutable_statistics());
  }
  const absl::Duration took = input.looked +
                              std::max(counted.end - counted.begin, absl::ZeroDuration()) +
                              (absl::Now() - added_up);
  report.round_trip_ns =
      static_cast<uint64_t>(std::max(absl::ToInt64Nanoseconds(took), int64_t{0}));
  report.receipt.set_backend("cpu");
  report.receipt.set_kernel(std::string(KernelName(plan, counted.block_bytes_max)));
  report.receipt.set_batch_payloads(1);
  // Of threads side by side the time of one.
  const auto kernel_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(counted.kernel));
  report.receipt.set_kernel_ns(kernel_ns / std::max<size_t>(counted.threads.size(), 1));
  report.receipt.set_total_ns(report.round_trip_ns);
  report.threads = counted.threads.size();
  return report;
}

}  // namespace

Results CountInProcess(const v1::Spec& spec, const std::vector<Input>& inputs, absl::Time deadline,
                       Progress& progress) {
  const SampleType type = TypeOf(spec);
  const Result<Binning> binning = BinningOf(spec.binning(), type);
  if (!binning.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("spec.binning.", binning.error().message));
  }
  const Result<Plan> plan = Plan::MakeFor(*binning, type, /*samples=*/UINT64_MAX);
  if (!plan.ok()) return absl::InvalidArgumentError(plan.error().message);
  const std::vector<Counted> counted = LocalCounter(inputs, *plan, deadline, progress).Run();
  std::vector<absl::StatusOr<Report>> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back(ReportOf(inputs[i], spec, counted[i]));
  }
  return results;
}

}  // namespace histogram::cli
