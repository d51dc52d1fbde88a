// How a lane lays a batch out in its memory and starts it: bytes, then typed samples.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/cuda/backend/lane/streaming_copy.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/fetch.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {
namespace {

// Work that a block of the ladder gets: rounds for two teams of two warps. Fewer give a batch more
// blocks. Not measured apart.
constexpr uint32_t kUnitsPerBlock = 8;
// Typed payloads of up to so many bytes, on average, and bins share a launch. For larger ones a
// launch each is as quick or quicker: at 1 MiB the shared one was up to 15 % slower. 200 payloads
// of 4 KiB take 0.13 ms in one launch instead of 1.14 with 100 bins, and 0.53 instead of 1.45 with
// 2,048 (H200, b08195a).
constexpr uint64_t kSharedLaunchBytesMax = uint64_t{64} << 10;
constexpr uint32_t kSharedLaunchBinsMax = 8192;

}  // namespace

std::vector<Fragment> Lane::PinnedFragments(uint64_t payload_bytes, const CudaKernel& kernel) {
  Batch batch;
  batch.bytes = payload_bytes;
  batch.items.push_back({.fragments = {}, .bytes = payload_bytes});
  ChooseMode(batch, kernel);
  Layout(batch, 0);
  std::vector<Fragment> fragments;
  for (const Portion& portion : portions_) {
    const auto* const descriptors =
        input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
    for (uint32_t i = 0; i < portion.piece_count; ++i) {
      fragments.emplace_back(input_.host(descriptors[i].offset), descriptors[i].bytes);
    }
  }
  return fragments;
}

void Lane::ChooseMode(const Batch& batch, const CudaKernel& kernel) {
  kernel_ = &kernel;
  fetched_ = CanFetch(batch);
  const bool fits = kernel.ladder == Ladder::kByBytes
                        ? batch.bytes <= kLoneBytesMax && batch.items.size() == 1
                        : batch.bytes <= kMappedBytesMax;
  const auto found = std::find_if(recorded_.begin(), recorded_.end(),
                                  [&](const Recorded& r) { return r.kernel == &kernel; });
  ladder_ = fits && !fetched_ && found != recorded_.end() ? &*found : nullptr;
}

// Cuts the batch and writes each portion's header and descriptors, from `begin` in the pinned
// input.
void Lane::Layout(const Batch& batch, uint64_t begin) {
  CutBatch(batch.items, batch.bytes, ladder_ != nullptr || fetched_, pieces_, portion_pieces_);
  portions_.clear();
  for (size_t i = 0; i < portion_pieces_.size(); ++i) {
    const uint32_t first = portion_pieces_[i];
    const auto all = static_cast<uint32_t>(pieces_.size());
    const uint32_t end = i + 1 < portion_pieces_.size() ? portion_pieces_[i + 1] : all;
    portions_.push_back(WritePortion(first, end - first, begin));
    begin = AlignUp(begin + portions_.back().bytes, kPieceAlignment);
  }
}

// A portion of these pieces, at `begin` in the pinned input.
Lane::Portion Lane::WritePortion(uint32_t first_piece, uint32_t piece_count, uint64_t begin) {
  Portion portion;
  portion.first_piece = first_piece;
  portion.piece_count = piece_count;
  portion.begin = begin;
  auto* const header = input_.host<BatchHeader>(begin);
  auto* const descriptors = input_.host<PayloadDescriptor>(begin + sizeof(BatchHeader));
  uint64_t at = PayloadsBegin(begin, portion.piece_count);
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    const uint64_t bytes = pieces_[first_piece + i].bytes;
    descriptors[i] = {.offset = at, .bytes = static_cast<uint32_t>(bytes), .start = 0};
    at += AlignUp(bytes, kPieceAlignment);
  }
  portion.units = AssignUnits(absl::MakeSpan(descriptors, portion.piece_count),
                              kernel_ == nullptr ? 0 : kernel_->payload_overhead_units);
  *header = {.payload_count = portion.piece_count,
             .units = portion.units,
             .flag_value = sequence_,
             .reserved = 0};
  portion.bytes = at - begin;
  return portion;
}

bool Lane::InReceiveMemory(const Fragment& fragment) const {
  const absl::Span<const uint8_t> memory = options_.receive_memory;
  return fragment.data() >= memory.begin() && fragment.data() + fragment.size() <= memory.end();
}

// Whether most of the batch lies in the receive memory, in few enough pieces.
bool Lane::CanFetch(const Batch& batch) const {
  if (options_.receive_memory.empty() || batch.bytes < kFetchedBytesMin) return false;
  // In front of the payloads are tables, the header and descriptors.
  uint64_t pieces = (input_.bytes() - options_.lane_bytes) / kHostPieceBytesMax + 2;
  uint64_t elsewhere = 0;
  for (const BatchItem& item : batch.items) {
    for (const Fragment& fragment : item.fragments) {
      if (!InReceiveMemory(fragment)) elsewhere += fragment.size();
      pieces += fragment.size() / kHostPieceBytesMax + 2;
    }
  }
  return elsewhere <= batch.bytes / 4 && pieces * sizeof(HostPiece) <= host_pieces_.bytes();
}

// Queues what CopyPortion queues, for the only portion of a batch that is fetched. Gathers the
// fragments that lie elsewhere.
absl::Status Lane::FetchPortion(const Batch& batch) {
  auto* const pieces = host_pieces_.host<HostPiece>();
  uint32_t count = 0;
  const auto add = [&](uint64_t from, uint64_t to, uint64_t bytes) {
    while (bytes > 0) {
      const uint64_t length =
          std::min<uint64_t>(bytes, kHostPieceBytesMax - from % kHostPieceBytesMax);
      pieces[count++] = {.from = from, .to = to, .bytes = length};
      from += length;
      to += length;
      bytes -= length;
    }
  };
  const Portion& portion = portions_.front();
  const auto* const descriptors =
      input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
  const auto input = reinterpret_cast<uint64_t>(input_.device());
  add(input, 0, descriptors->offset);
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    uint64_t to = descriptors[i].offset;
    for (const Fragment& fragment : batch.items[pieces_[i].item].fragments) {
      if (InReceiveMemory(fragment)) {
        add(options_.receive_device + (fragment.data() - options_.receive_memory.data()), to,
            fragment.size());
      } else {
        const uint64_t start = NowNs();
        StreamingCopy(input_.host(to), fragment.data(), fragment.size());
        StreamingFence();
        gather_ns_ += NowNs() - start;
        add(input + to, to, fragment.size());
      }
      to += fragment.size();
    }
  }
  HISTOGRAM_RETURN_IF_ERROR(EnqueueFetch({.pieces = host_pieces_.device<HostPiece>(),
                                          .count = count,
                                          .to = device_input_.get(),
                                          .stream = stream_.get()}));
  return ToStatus(cudaEventRecord(copied_.get(), stream_.get()), "cudaEventRecord");
}

// Returns how long it took, in nanoseconds.
uint64_t Lane::Gather(const Batch& batch, const Portion& portion) {
  const uint64_t start = NowNs();
  const auto* const descriptors =
      input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    const Piece& piece = pieces_[portion.first_piece + i];
    StreamingCopy(input_.host(descriptors[i].offset), batch.items[piece.item].fragments,
                  piece.item_offset, piece.bytes);
  }
  StreamingFence();
  return NowNs() - start;
}

absl::Status Lane::StartBatch(const Batch& batch) {
  if (batch.items.empty() || batch.items.size() > options_.lane_payloads ||
      batch.bytes > options_.lane_bytes) {
    return absl::InvalidArgumentError("the batch is empty or larger than the lane");
  }
  start_ns_ = NowNs();
  gather_ns_ = 0;
  if (++sequence_ == 0) sequence_ = 1;  // 0 is what the flag holds at first
  return absl::OkStatus();
}

absl::Status Lane::Begin(const Batch& batch, const CudaKernel& kernel) {
  HISTOGRAM_RETURN_IF_ERROR(StartBatch(batch));
  ChooseMode(batch, kernel);
  Layout(batch, 0);
  return ladder_ != nullptr ? BeginMapped(batch) : BeginCopied(batch);
}

absl::Status Lane::BeginMapped(const Batch& batch) {
  const Portion& portion = portions_.front();
  gather_ns_ = Gather(batch, portion);
  HISTOGRAM_RETURN_IF_ERROR(InjectFault());
  const uint64_t wanted =
      kernel_->ladder == Ladder::kByBytes ? batch.bytes : uint64_t{portion.units / kUnitsPerBlock};
  const auto rung = std::find_if(ladder_->rungs.begin(), ladder_->rungs.end() - 1,
                                 [wanted](const Rung& r) { return r.limit >= wanted; });
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaGraphLaunch(rung->graph.get(), stream_.get()));
  launched_ns_ = NowNs();
  return absl::OkStatus();
}

// Gathers a portion, with what lies in front of the first one, and queues its copy, for which
// everything that is queued on the stream from now on waits.
absl::Status Lane::CopyPortion(const Batch& batch, size_t index) {
  if (fetched_) return FetchPortion(batch);
  const Portion& portion = portions_[index];
  const bool is_last = index + 1 == portions_.size();
  gather_ns_ += Gather(batch, portion);
  const uint64_t begin = index == 0 ? 0 : portion.begin;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(device_input_.get(begin), input_.host(begin),
                                                 portion.begin + portion.bytes - begin,
                                                 cudaMemcpyHostToDevice, copy_stream_.get()));
  cudaEvent_t copied = is_last ? copied_.get() : portion_copied_.get();
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaEventRecord(copied, copy_stream_.get()));
  return ToStatus(cudaStreamWaitEvent(stream_.get(), copied, 0), "cudaStreamWaitEvent");
}

absl::Status Lane::CopyBack(uint64_t bytes) {
  if (bytes > 0) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(rows_.host(), device_rows_.get(), bytes,
                                                   cudaMemcpyDeviceToHost, stream_.get()));
  }
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaEventRecord(done_.get(), stream_.get()));
  launched_ns_ = NowNs();
  return absl::OkStatus();
}

absl::Status Lane::BeginCopied(const Batch& batch) {
  HISTOGRAM_RETURN_IF_ERROR(InjectFault());
  for (size_t i = 0; i < portions_.size(); ++i) {
    HISTOGRAM_RETURN_IF_ERROR(CopyPortion(batch, i));
    Launch launch = MakeLaunch(portions_[i], /*mapped=*/false);
    const bool is_last = i + 1 == portions_.size();
    if (is_last && !RowsOnDevice()) launch.flag = control_.device<uint32_t>(kFlagAt);
    HISTOGRAM_RETURN_IF_ERROR(kernel_->Enqueue(launch));
  }
  return CopyBack(RowsOnDevice() ? pieces_.size() * kRowBytes : 0);
}

absl::Status Lane::BeginTyped(const Batch& batch) {
  HISTOGRAM_RETURN_IF_ERROR(StartBatch(batch));
  const Plan& plan = batch.items.front().plan;
  const uint64_t slots = internal::SlotCount(plan.bin_count());
  if (batch.items.size() > kLaneCounters / slots) {
    return absl::InvalidArgumentError("the batch needs more counters than the lane has");
  }
  kernel_ = nullptr;
  ladder_ = nullptr;
  fetched_ = CanFetch(batch);
  const absl::Span<const uint8_t> tables = SetBins(plan);
  if (!tables.empty()) std::memcpy(input_.host(), tables.data(), tables.size());
  Layout(batch, AlignUp(tables.size(), kPieceAlignment));

  uint64_t rows_bytes = pieces_.size() * slots * sizeof(uint32_t);
  piece_rows_ = batch.items.size() > 1 &&
                batch.bytes <= batch.items.size() * kSharedLaunchBytesMax &&
                bin_count_ <= std::min(kSharedLaunchBinsMax, RowBinsMax(options_.device)) &&
                rows_bytes <= device_rows_.bytes();
  HISTOGRAM_RETURN_IF_ERROR(
      (piece_rows_ ? PrepareRows : PrepareTable)(sample_type_, bins_, options_.device));
  HISTOGRAM_RETURN_IF_ERROR(InjectFault());
  if (!piece_rows_) {
    rows_bytes = batch.items.size() * slots * sizeof(uint64_t);
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaMemsetAsync(device_rows_.get(), 0, rows_bytes, stream_.get()));
  }
  for (size_t i = 0; i < portions_.size(); ++i) {
    HISTOGRAM_RETURN_IF_ERROR(CopyPortion(batch, i));
    HISTOGRAM_RETURN_IF_ERROR(piece_rows_ ? EnqueueTypedRows(portions_[i])
                                          : EnqueueTypedPortion(portions_[i]));
  }
  return CopyBack(rows_bytes);
}

// Pieces are whole samples: they end where their payload does, or at a multiple of kPieceAlignment.
absl::Status Lane::EnqueueTypedPortion(const Portion& portion) {
  const uint64_t slots = internal::SlotCount(bin_count_);
  const auto* const descriptors =
      input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    HISTOGRAM_RETURN_IF_ERROR(EnqueueTypedCount(descriptors[i].offset, descriptors[i].bytes,
                                                pieces_[portion.first_piece + i].item * slots));
  }
  return absl::OkStatus();
}

absl::Status Lane::EnqueueTypedCount(uint64_t at, uint64_t bytes, uint64_t first_counter) {
  assert(bytes % SampleBytes(sample_type_) == 0);
  TypedLaunch launch;
  launch.type = sample_type_;
  launch.samples = device_input_.get(at);
  launch.count = bytes / SampleBytes(sample_type_);
  launch.counts = device_rows_.get<unsigned long long>() + first_counter;
  launch.device = &options_.device;
  launch.stream = stream_.get();
  return EnqueueTyped(launch, bins_);
}

// All pieces of a portion in one launch.
absl::Status Lane::EnqueueTypedRows(const Portion& portion) {
  RowsLaunch launch;
  launch.type = sample_type_;
  launch.samples = device_input_.get();
  launch.stretches = portion.piece_count;
  launch.payloads = device_input_.get<const PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    launch.longest = std::max(launch.longest, pieces_[portion.first_piece + i].bytes);
  }
  launch.longest /= SampleBytes(launch.type);
  const uint64_t first = portion.first_piece;
  launch.counts = device_rows_.get<uint32_t>() + first * bin_count_;
  launch.outside =
      device_rows_.get<uint32_t>() + pieces_.size() * bin_count_ + first * internal::kOutsideSlots;
  launch.device = &options_.device;
  launch.stream = stream_.get();
  return EnqueueRows(launch, bins_);
}

// Adds up the rows of pieces: of bytes, or of typed samples, whose outsides lie behind all bins.
void Lane::SumRows(const Batch& batch) const {
  const uint64_t bins = kernel_ != nullptr ? kByteValues : bin_count_;
  const uint64_t outsides = kernel_ != nullptr ? 0U : internal::kOutsideSlots;
  const uint32_t* row = rows_.host<uint32_t>();
  const uint32_t* outside = row + pieces_.size() * bins;
  for (const Piece& piece : pieces_) {
    const absl::Span<uint64_t> counts = batch.items[piece.item].counts;
    assert(counts.size() == bins + outsides);
    const bool first = piece.item_offset == 0;
    for (uint64_t i = 0; i < bins; ++i) counts[i] = (first ? 0 : counts[i]) + row[i];
    for (uint64_t i = 0; i < outsides; ++i) {
      counts[bins + i] = (first ? 0 : counts[bins + i]) + outside[i];
    }
    row += bins;
    outside += outsides;
  }
}

void Lane::CopyTypedRows(const Batch& batch) const {
  const uint64_t* row = rows_.host<uint64_t>();
  for (const BatchItem& item : batch.items) {
    assert(item.counts.size() == internal::SlotCount(bin_count_));
    std::copy(row, row + item.counts.size(), item.counts.begin());
    row += item.counts.size();
  }
}

}  // namespace histogram::cuda
