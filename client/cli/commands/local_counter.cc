#include "client/cli/commands/local_counter.h"

#include <histogram/usable_cores.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/connection.h"
#include "client/cli/render/text.h"

namespace histogram::cli {

void Tally::Add(const Tally& piece) {
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

void Tally::Count(absl::Span<const uint8_t> block, const Plan* plan) {
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

namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;    // counted while they are in the core's cache
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // what a thread takes at a time
constexpr uint64_t kThreadBytesMin = uint64_t{4} << 20;  // less does not pay for another thread
constexpr uint64_t kToTheEnd = std::numeric_limits<uint64_t>::max();

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
    return std::move(tallies_);
  }

 private:
  // Looks at the inputs' sizes; returns how many threads are useful.
  uint64_t Begin() {
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
    return std::min(pieces, 1 + known / kThreadBytesMin);
  }

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
            SafeText(input.name), " ends within a sample: ", std::string(NameOf(plan_->type())),
            " samples take ", size, " bytes each"));
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

std::vector<Tally> CountValuesOf(const std::vector<Input>& inputs, const Plan* plan,
                                 int standard_input, absl::Time deadline, Progress& progress) {
  return LocalCounter(inputs, plan, standard_input, deadline, progress).Run();
}

}  // namespace histogram::cli
