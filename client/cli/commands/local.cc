#include "client/cli/commands/local.h"

#include <histogram/histogram.h>
#include <histogram/sample_statistics.h>
#include <histogram/typed.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/commands/samples.h"
#include "client/cli/connection.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;    // counted while they are in the core's cache
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // what a thread takes at a time
constexpr uint64_t kThreadBytesMin = uint64_t{4} << 20;  // less does not pay for another thread
constexpr uint64_t kToTheEnd = std::numeric_limits<uint64_t>::max();

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

// What was counted of one input.
struct Tally {
  absl::Status status;
  ValueCounts values{};            // of bytes
  std::optional<Histogram> typed;  // of other types
  uint64_t kernel_ns = 0;
  size_t block_bytes_max = 0;
  std::set<size_t> threads;
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();

  void Add(const Tally& piece) {
    if (status.ok()) status = piece.status;
    for (size_t value = 0; value < values.size(); ++value) values[value] += piece.values[value];
    if (piece.typed.has_value()) {
      typed.has_value() ? Merge(*piece.typed, *typed) : void(typed = piece.typed);
    }
    kernel_ns += piece.kernel_ns;
    block_bytes_max = std::max(block_bytes_max, piece.block_bytes_max);
    threads.insert(piece.threads.begin(), piece.threads.end());
    begin = std::min(begin, piece.begin);
    end = std::max(end, piece.end);
  }

  // `plan`: null for bytes.
  void Count(absl::Span<const uint8_t> block, const Plan* plan) {
    const absl::Time start = absl::Now();
    if (plan != nullptr) {
      if (!typed.has_value()) typed = EmptyHistogram(*plan);
      AddSamples(std::as_bytes(std::span(block.data(), block.size())), *plan, *typed);
    } else {
      const ValueCounts counts = CountValues(block);
      for (size_t value = 0; value < values.size(); ++value) values[value] += counts[value];
    }
    kernel_ns +=
        static_cast<uint64_t>(std::max(absl::ToInt64Nanoseconds(absl::Now() - start), int64_t{0}));
    block_bytes_max = std::max(block_bytes_max, block.size());
  }
};

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

// Threads claim pieces in the inputs' order; each counts its piece block by block.
class LocalCounter {
 public:
  // `plan`: null for bytes.
  LocalCounter(const std::vector<Input>& inputs, const Plan* plan, int standard_input,
               absl::Time deadline, Progress& progress)
      : inputs_(inputs),
        plan_(plan),
        block_bytes_(BlockBytes(plan)),
        standard_input_(standard_input),
        deadline_(deadline),
        progress_(progress),
        sizes_(inputs.size()),
        tallies_(inputs.size()) {}

  std::vector<Tally> Run() {
    uint64_t pieces = 0;
    std::optional<uint64_t> total = 0;
    uint64_t known = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto size = SizeOf(inputs_[i]);
      if (!size.ok()) {
        absl::MutexLock lock(&mutex_);
        tallies_[i].status = size.status();
        continue;
      }
      sizes_[i] = *size;
      pieces += size->value_or(0) / kPieceBytes + 1;
      known += size->value_or(0);
      if (!size->has_value()) total.reset();
    }
    if (total.has_value()) total = known;
    progress_.Begin(inputs_.size() == 1 ? inputs_[0].name : absl::StrCat(inputs_.size(), " inputs"),
                    total);
    const uint64_t useful = std::min(pieces, 1 + known / kThreadBytesMin);
    const uint64_t wanted = std::min<uint64_t>(std::thread::hardware_concurrency(), useful);
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
    return std::move(tallies_);
  }

 private:
  struct Piece {
    size_t input = 0;
    std::shared_ptr<const InputFile> file = nullptr;  // null: the input's bytes are in memory
    uint64_t offset = 0;
    uint64_t bytes = kToTheEnd;
  };

  // Adding up a block's counters should cost little of counting it.
  static size_t BlockBytes(const Plan* plan) {
    if (plan == nullptr) return kBlockBytes;
    return std::clamp<size_t>(size_t{64} * plan->bin_count() / kBlockBytes * kBlockBytes,
                              kBlockBytes, kPieceBytes);
  }

  std::optional<Piece> Claim() {
    absl::MutexLock lock(&mutex_);
    for (; at_ < inputs_.size(); NextInput()) {
      if (!tallies_[at_].status.ok()) continue;
      const Input& input = inputs_[at_];
      if (!input.bytes.has_value() && file_ == nullptr) {
        absl::StatusOr<InputFile> file = OpenInput(input, standard_input_);
        if (!file.ok()) {
          tallies_[at_].status = file.status();
          continue;
        }
        file_ = std::make_shared<const InputFile>(*std::move(file));
      }
      Piece piece = {at_, file_, offset_};
      if (sizes_[at_].has_value()) {
        piece.bytes = std::min(kPieceBytes, *sizes_[at_] - offset_);
        offset_ += piece.bytes;
      }
      if (!sizes_[at_].has_value() || offset_ >= *sizes_[at_]) NextInput();
      return piece;
    }
    return std::nullopt;
  }

  void NextInput() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++at_;
    offset_ = 0;
    file_.reset();
  }

  void Work(size_t thread) {
    std::string buffer;
    while (const std::optional<Piece> piece = Claim()) {
      Tally tally;
      tally.begin = absl::Now();
      tally.threads = {thread};
      tally.status = CountPiece(*piece, thread == 0, buffer, tally);
      tally.end = absl::Now();
      absl::MutexLock lock(&mutex_);
      tallies_[piece->input].Add(tally);
    }
  }

  // `draws`: whether this thread draws the progress.
  absl::Status CountPiece(const Piece& piece, bool draws, std::string& buffer, Tally& tally) {
    const Input& input = inputs_[piece.input];
    for (uint64_t done = 0; done < piece.bytes;) {
      if (absl::Now() > deadline_) return absl::DeadlineExceededError("");
      const size_t room = static_cast<size_t>(std::min<uint64_t>(block_bytes_, piece.bytes - done));
      absl::string_view block;
      if (piece.file == nullptr) {
        block = absl::string_view(*input.bytes).substr(piece.offset + done, room);
      } else {
        buffer.resize(block_bytes_);
        const absl::Span<char> free = absl::MakeSpan(buffer).first(room);
        const absl::StatusOr<size_t> bytes =
            piece.bytes == kToTheEnd
                ? ReadFully(piece.file->descriptor(), free, input.name, deadline_)
                : ReadAt(*piece.file, free, input.begin + piece.offset + done, input.name);
        if (!bytes.ok()) return bytes.status();
        block = absl::string_view(buffer).substr(0, *bytes);
      }
      if (const size_t size = plan_ == nullptr ? 1 : SampleBytes(plan_->type());
          block.size() % size != 0) {
        return absl::FailedPreconditionError(absl::StrCat(
            SafeText(input.name), " ends within a sample: its bytes are no multiple of ", size,
            ", as ", std::string(NameOf(plan_->type())), " needs"));
      }
      tally.Count({reinterpret_cast<const uint8_t*>(block.data()), block.size()}, plan_);
      done += block.size();
      const uint64_t all = counted_.fetch_add(block.size(), std::memory_order_relaxed);
      if (draws) progress_.Update(all + block.size());
      // The end: asked for a second time a terminal would wait for the next key.
      if (block.size() < room) break;
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<size_t> ReadAt(const InputFile& file, absl::Span<char> buffer,
                                       uint64_t offset, const std::string& name) {
    size_t filled = 0;
    while (filled < buffer.size()) {
      const ssize_t bytes = pread(file.descriptor(), buffer.data() + filled, buffer.size() - filled,
                                  static_cast<off_t>(offset + filled));
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("cannot read ", SafeText(name), ": ", strerror(errno)));
      }
      if (bytes == 0) break;
      filled += static_cast<size_t>(bytes);
    }
    return filled;
  }

  const std::vector<Input>& inputs_;
  const Plan* const plan_;
  const size_t block_bytes_;
  const int standard_input_;
  const absl::Time deadline_;
  Progress& progress_;
  std::vector<std::optional<uint64_t>> sizes_;  // written before the threads start
  std::atomic<uint64_t> counted_ = 0;

  absl::Mutex mutex_;
  std::vector<Tally> tallies_ ABSL_GUARDED_BY(mutex_);
  size_t at_ ABSL_GUARDED_BY(mutex_) = 0;  // the input of the next piece, and where it begins
  uint64_t offset_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const InputFile> file_ ABSL_GUARDED_BY(mutex_);
};

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
  const std::vector<Tally> tallies =
      LocalCounter(inputs, plan.has_value() ? &*plan : nullptr, standard_input, deadline, progress)
          .Run();
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
