#include "kernels/cuda/backend/lane/lane.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/fetch.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/mutex.h"

namespace histogram::cuda {
namespace {

// Header, descriptor and padding of every piece, as if each had a portion of its own.
uint64_t OverheadBytesMax(const LaneOptions& options) {
  return PiecesMax(options.lane_bytes, options.lane_payloads) *
         (sizeof(BatchHeader) + sizeof(PayloadDescriptor) + kPieceAlignment + kRoundBytes);
}

// Of fragments of at least 4 KiB each, which lie over two pieces. Batches of more are gathered.
uint64_t HostPiecesMax(const LaneOptions& options) {
  return 2 * (options.lane_bytes / kHostPieceBytesMax + options.lane_payloads);
}

// Between two looks at an event a lane's thread sleeps for an eighth of the time that it has
// waited, and at least for the time of a wake-up. So it oversleeps by less, and a kernel that hangs
// costs next to no CPU time. Beside an interrupt, one lane moves 16 MiB at 48 GB/s instead of 40,
// and eight lanes 1 MiB at 38 instead of 27; a batch of 16 MiB takes 170 us of CPU time instead of
// 90 (H200, 419b408 with naps of a sixteenth; an eighth since f28ef1a).
constexpr uint64_t kNapsPerWait = 8;
constexpr uint64_t kNapNsMin = 10'000;
constexpr uint64_t kNapNsMax = 1'000'000;

void Nap(uint64_t waited_ns) {
  const uint64_t nap_ns = std::clamp(waited_ns / kNapsPerWait, kNapNsMin, kNapNsMax);
  std::this_thread::sleep_for(std::chrono::nanoseconds(nap_ns));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> Lane::Make(const LaneOptions& options) {
  std::unique_ptr<Lane> lane(new Lane(options));
  HISTOGRAM_RETURN_IF_ERROR(lane->Allocate());
  HISTOGRAM_RETURN_IF_ERROR(lane->Record());
  return lane;
}

Lane::~Lane() {
  // Buffers must not go while the device uses them.
  if (stream_.get() != nullptr) {
    if (control_.bytes() > 0) ReleaseHang();
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }
}

absl::Status Lane::Allocate() {
  if (options_.faults->out_of_memory) {
    return ToStatus(cudaErrorMemoryAllocation, "allocation of a lane");
  }
  const uint64_t input_bytes =
      options_.lane_bytes + OverheadBytesMax(options_) + TableBytesMax(kLaneCounters);
  const uint64_t pieces_max = PiecesMax(options_.lane_bytes, options_.lane_payloads);
  const uint64_t rows_bytes =
      std::max(pieces_max * kRowBytes, uint64_t{kLaneCounters} * sizeof(uint64_t));
  const auto lane_bytes = static_cast<uint32_t>(options_.lane_bytes);
  HISTOGRAM_ASSIGN_OR_RETURN(stream_, MakeStream());
  HISTOGRAM_ASSIGN_OR_RETURN(copy_stream_, MakeStream());
  HISTOGRAM_ASSIGN_OR_RETURN(copied_, MakeEvent(cudaEventDefault));
  HISTOGRAM_ASSIGN_OR_RETURN(done_, MakeEvent(cudaEventDefault));
  HISTOGRAM_ASSIGN_OR_RETURN(portion_copied_, MakeEvent(cudaEventDisableTiming));
  HISTOGRAM_ASSIGN_OR_RETURN(input_, PinnedBuffer::Make(input_bytes));
  HISTOGRAM_ASSIGN_OR_RETURN(rows_, PinnedBuffer::Make(rows_bytes));
  HISTOGRAM_ASSIGN_OR_RETURN(control_, PinnedBuffer::Make(kControlBytes));
  if (!options_.receive_memory.empty()) {
    HISTOGRAM_ASSIGN_OR_RETURN(host_pieces_,
                               PinnedBuffer::Make(HostPiecesMax(options_) * sizeof(HostPiece)));
  }
  HISTOGRAM_ASSIGN_OR_RETURN(device_input_, DeviceBuffer::Make(input_bytes));
  HISTOGRAM_ASSIGN_OR_RETURN(device_rows_, DeviceBuffer::Make(rows_bytes));
  HISTOGRAM_ASSIGN_OR_RETURN(scratch_,
                             DeviceBuffer::Make(ScratchBytesMax(options_.device, lane_bytes)));
  const uint64_t clean_bytes =
      std::max(CleanBytesMax(options_.device), kExtentWords * sizeof(uint64_t));
  HISTOGRAM_ASSIGN_OR_RETURN(clean_, DeviceBuffer::Make(clean_bytes));
  pieces_.reserve(pieces_max);
  portion_pieces_.reserve(PortionsMax(options_.lane_bytes, options_.lane_payloads));
  portions_.reserve(portion_pieces_.capacity());
  return absl::OkStatus();
}

// Records the launches of each kernel that has a ladder, so that a small batch costs one short
// launch.
absl::Status Lane::Record() {
  Portion portion;
  portion.units = ~0U;
  *input_.host<PayloadDescriptor>(sizeof(BatchHeader)) = {
      .offset = PayloadsBegin(0, 1), .bytes = 0, .start = 0};
  for (const CudaKernel* kernel : Kernels()) {
    Recorded recorded = {.kernel = kernel, .rungs = {}};
    if (kernel->ladder == Ladder::kByBlocks) {
      portion.piece_count = 0;
      const uint32_t multiprocessors = options_.device.multiprocessors;
      for (uint32_t blocks = 1; blocks < 2 * multiprocessors; blocks *= 2) {
        Launch launch = MakeLaunch(portion, /*mapped=*/true);
        launch.blocks_max = std::min(blocks, multiprocessors);
        HISTOGRAM_RETURN_IF_ERROR(RecordRung(launch, launch.blocks_max, recorded));
      }
    } else if (kernel->ladder == Ladder::kByBytes) {
      portion.piece_count = 1;
      for (const uint32_t kib : {4U, 16U, 32U, 64U}) {
        Launch launch = MakeLaunch(portion, /*mapped=*/true);
        launch.readable_bytes = kib << 10;
        HISTOGRAM_RETURN_IF_ERROR(RecordRung(launch, launch.readable_bytes, recorded));
      }
    }
    if (!recorded.rungs.empty()) recorded_.push_back(std::move(recorded));
  }
  return ToStatus(cudaStreamSynchronize(stream_.get()), "upload of a lane's graphs");
}

absl::Status Lane::RecordRung(const Launch& launch, uint32_t limit, Recorded& recorded) {
  Launch flagged = launch;
  flagged.flag = control_.device<uint32_t>(kFlagAt);
  HISTOGRAM_CUDA_RETURN_IF_ERROR(
      cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  const absl::Status enqueued = recorded.kernel->Enqueue(flagged);
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &captured);
  const Graph graph(captured);
  HISTOGRAM_RETURN_IF_ERROR(enqueued);
  HISTOGRAM_RETURN_IF_ERROR(ToStatus(ended, "cudaStreamEndCapture"));
  cudaGraphExec_t executable = nullptr;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaGraphInstantiate(&executable, graph.get(), 0));
  recorded.rungs.push_back({.limit = limit, .graph = GraphExec(executable)});
  return ToStatus(cudaGraphUpload(executable, stream_.get()), "cudaGraphUpload");
}

Launch Lane::MakeLaunch(const Portion& portion, bool mapped) {
  uint8_t* const base = mapped ? input_.device() : device_input_.get();
  Launch launch;
  launch.input = base;
  launch.header = reinterpret_cast<const BatchHeader*>(base + portion.begin);
  launch.payloads = absl::MakeConstSpan(
      input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader)), portion.piece_count);
  launch.units = portion.units;
  uint32_t* const rows =
      !mapped && RowsOnDevice() ? device_rows_.get<uint32_t>() : rows_.device<uint32_t>();
  launch.rows = rows + uint64_t{portion.first_piece} * kByteValues;
  launch.scratch = scratch_.get();
  launch.clean = clean_.get();
  launch.device = &options_.device;
  launch.stream = stream_.get();
  return launch;
}

bool Lane::FlagIsSet() const {
  const std::atomic_ref<uint32_t> flag(*control_.host<uint32_t>(kFlagAt));
  return flag.load(std::memory_order_acquire) == sequence_;
}

absl::Status Lane::Wait() {
  // A fetch takes longer than spinning is worth: on an H200, 16 loads of 1 MiB at a time cost 0.356
  // s of CPU time a GB without it, 0.386 with 50 us.
  const uint64_t spin_us = fetched_ ? 0 : options_.spin_us_max;
  const uint64_t spin_until = launched_ns_ + spin_us * 1000;
  bool due = false;
  do {
    due = RowsOnDevice() && cudaEventQuery(done_.get()) != cudaErrorNotReady;
    for (int i = 0; i < 16 && !due; ++i) {
      if (!RowsOnDevice() && FlagIsSet()) {
        finished_ns_ = NowNs();
        return absl::OkStatus();
      }
      Pause();
    }
  } while (!due && NowNs() < spin_until);
  const absl::Status status = WaitForEvent();
  finished_ns_ = NowNs();
  return status;
}

absl::Status Lane::Drain() {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(copy_stream_.get()));
  return ToStatus(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

absl::Status Lane::WaitForEvent() {
  // Behind a graph there is none yet: mostly the flag comes while this spins.
  if (ladder_ != nullptr) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaEventRecord(done_.get(), stream_.get()));
  }
  const uint64_t start = NowNs();
  for (cudaError_t state; (state = cudaEventQuery(done_.get())) != cudaSuccess;) {
    if (state != cudaErrorNotReady) return ToStatus(state, "cudaEventQuery");
    Nap(NowNs() - start);
  }
  if (!RowsOnDevice() && !FlagIsSet()) {
    return absl::InternalError("the device finished a batch without setting its flag");
  }
  return absl::OkStatus();
}

void Lane::Finish(Batch& batch) {
  kernel_ != nullptr || piece_rows_ ? SumRows(batch) : CopyTypedRows(batch);
  batch.report.kernel = std::string(kernel_ != nullptr ? kernel_->name
                                    : piece_rows_      ? kTypedRowsName
                                                       : kTypedTableName);
  batch.report.gather_ns = gather_ns_;
  batch.report.transfer_ns = 0;
  // The time that is neither gathering nor transfer: with copies, what the kernels take after the
  // last copy.
  const uint64_t busy_ns =
      finished_ns_ - start_ns_ - std::min(gather_ns_, finished_ns_ - start_ns_);
  batch.report.kernel_ns = std::max<uint64_t>(1, busy_ns);
  float after_copy_ms = 0;
  if (ladder_ != nullptr) return;
  // The flag comes a moment before the event.
  while (cudaEventQuery(done_.get()) == cudaErrorNotReady) Pause();
  if (cudaEventElapsedTime(&after_copy_ms, copied_.get(), done_.get()) == cudaSuccess) {
    const auto after_copy_ns = static_cast<uint64_t>(std::max(0.0F, after_copy_ms) * 1e6F);
    batch.report.kernel_ns = std::max<uint64_t>(1, std::min(busy_ns, after_copy_ns));
    batch.report.transfer_ns = busy_ns - std::min(busy_ns, batch.report.kernel_ns);
  }
}

void Lane::ReleaseHang() {
  std::atomic_ref<uint32_t>(*control_.host<uint32_t>(kReleaseAt)).store(1);
}

absl::Status Lane::InjectFault() {
  switch (options_.faults->NextLaunch()) {
    case LaunchFault::kNone:
      return absl::OkStatus();
    case LaunchFault::kFail:
      return ToStatus(cudaErrorLaunchOutOfResources, "injected launch failure");
    case LaunchFault::kHang:
      return EnqueueHang(control_.device<uint32_t>(kReleaseAt), stream_.get());
    case LaunchFault::kPoison:
      return EnqueuePoison(stream_.get());
  }
  return absl::OkStatus();
}

uint64_t Lane::pinned_bytes() const {
  return input_.bytes() + rows_.bytes() + control_.bytes() + host_pieces_.bytes();
}

uint64_t Lane::device_bytes() const {
  return device_input_.bytes() + device_rows_.bytes() + scratch_.bytes() + clean_.bytes();
}

}  // namespace histogram::cuda
