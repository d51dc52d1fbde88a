// One lane of a GPU: streams, pinned and device buffers and a ladder of graphs, all allocated when
// it is made. It executes one batch at a time, in three steps that its thread calls in turn:
//
//   Begin   copies the fragments into pinned memory and queues copies and kernels. If a kernel
//           fetches the batch, fragments in the receive memory stay there.
//   Wait    spins, then naps, until the device is done; touches nothing of the batch
//   Finish  adds the rows up into the items' counts and fills in the report
//
// For phases (phases.h) the steps are finer: StartPhases, then Load, Use..., Begin..., Wait and
// EndStep as often as needed, then ReportPhases. RunPhases takes these steps.
//
// From kFetchedBytesMin on a kernel fetches a batch as one portion, if at least three quarters of
// it lie in the receive memory. Other batches are gathered. Up to kMappedBytesMax the kernels made
// for that read the pinned memory in place, as a graph launch. For other kernels and larger batches
// the batch is cut into portions that are gathered, copied and counted in overlap. Payloads are cut
// into pieces with a row of u32 each, which Finish sums in u64. Typed samples are never read in
// place; the tables of their plan lie in front. A portion of small payloads is one launch, as bytes
// are. Large ones, and those of many bins, take a launch each and a row of u64 for each payload.
//
// Used by one thread at a time, except ReleaseHang and const methods. Sizes in bytes.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_H_

#include <sys/prctl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/batch.h"
#include "kernels/cuda/backend/lane/lane_plan.h"
#include "kernels/cuda/base/fault_plan.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/kernels/extent.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/cuda/plan/typed_plan.h"

namespace histogram::cuda {

// Counters of a batch of typed samples: those of all its payloads. They take 4 MiB a lane, on host
// and device; payloads with more go to the CPU. Not measured apart.
inline constexpr uint32_t kLaneCounters = uint32_t{1} << 19;

// Offsets in a lane's control buffer, a cache line each: the completion flag, the word that
// releases a kernel that fault injection made hang, and the extent of samples.
inline constexpr uint64_t kFlagAt = 0;
inline constexpr uint64_t kReleaseAt = 128;
inline constexpr uint64_t kExtentAt = 256;
inline constexpr uint64_t kControlBytes = 384;

// A portion's bytes begin here, behind its header and descriptors.
inline constexpr uint64_t PayloadsBegin(uint64_t portion_begin, uint64_t pieces) {
  return AlignUp(portion_begin + sizeof(BatchHeader) + pieces * sizeof(PayloadDescriptor), 128);
}

// By default Linux lets a sleep last 50 us longer than asked, to wake several threads at once. From
// this call on its thread, and threads that it starts, are spared that. A thread that waits for a
// Lane should call it.
inline void SleepPrecisely() { prctl(PR_SET_TIMERSLACK, 1UL); }

inline uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

struct LaneOptions {
  DeviceTraits device;
  uint64_t lane_bytes = 0;     // below 4 GiB
  uint32_t lane_payloads = 0;  // at least 1
  uint32_t spin_us_max = 0;
  std::shared_ptr<FaultPlan> faults;
  // Registered host memory in which fragments may lie, and the device's address of it. It outlives
  // the device's work.
  absl::Span<const uint8_t> receive_memory = {};
  uint64_t receive_device = 0;
};

// The device fetches batches of the receive memory from this size on. Below, a launch costs what
// gathering does (on an H200, 1095662, 64 and 256 KiB gain nothing yet, and lose nothing; 1 MiB
// over eight connections takes 0.82 of the server CPU of `--backend cpu`, and gathered 0.98).
inline constexpr uint64_t kFetchedBytesMin = uint64_t{64} << 10;

// Batches up to this size may be read in place: that saves a copy's start, some
// microseconds. Not measured apart.
inline constexpr uint64_t kMappedBytesMax = uint64_t{1} << 20;
// Lone payloads up to this size have a kernel of their own (one_block.cu): 64 KiB take 1.2 null
// launches (H200, 50472e8). Its block has no more loads in flight.
inline constexpr uint32_t kLoneBytesMax = uint32_t{64} << 10;

class Lane {
 public:
  // REQUIRES: options.device is the current device, and stays it for every call, on any thread.
  static absl::StatusOr<std::unique_ptr<Lane>> Make(const LaneOptions& options);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Executes the batch with that kernel. REQUIRES: the batch is not empty and within the lane's
  // limits.
  absl::Status Begin(const Batch& batch, const CudaKernel& kernel);
  // The same for typed samples. REQUIRES: all items' plans have the same bins; together they need
  // at most kLaneCounters.
  absl::Status BeginTyped(const Batch& batch);
  // UNAVAILABLE: the context is lost, and with it this lane. It must not be destroyed.
  absl::Status Wait();
  // Waits for whatever a Begin that failed has queued. UNAVAILABLE as above.
  absl::Status Drain();
  // REQUIRES: Wait returned OK; the same batch.
  void Finish(Batch& batch);

  // --- Phases. Steps on a part of a payload, which stays loaded.
  void StartPhases();
  // Most bytes of a part; a multiple of every sample's size.
  uint64_t part_bytes_max() const {
    return options_.lane_bytes / kPieceAlignment * kPieceAlignment;
  }
  // Most rows, and stretches, of a step.
  uint64_t RowsMax(uint32_t bins) const;
  // The part: bytes [at, at + bytes) of the payload.
  absl::Status Load(std::span<const Fragment> payload, uint64_t at, uint64_t bytes);
  // What later steps count by. `with_tables`: of even bins, too. BeginRows needs them for samples
  // of 8 bits, for more channels than one, and with begins.
  absl::Status UsePlan(const Plan& plan, bool with_tables = false);
  // Each of these is followed by Wait, then by EndStep.
  absl::Status BeginExtent(SampleType type);
  // Counts the part. `first`: the counters are cleared before. REQUIRES: they are at most
  // kLaneCounters.
  absl::Status BeginCount(bool first);
  // `launch` tells the rows of the part's pixels, its samples lie so many bytes behind the part's
  // first; the lane sets all else. `begins`: as launch.begins, in host memory, or none.
  // REQUIRES: UsePlan; at most RowsMax rows.
  absl::Status BeginRows(RowsLaunch launch, uint64_t offset, absl::Span<const uint64_t> begins);
  void EndStep();
  // The outcomes of the last step.
  const Extent& extent() const { return *control_.host<Extent>(kExtentAt); }
  const uint64_t* counters() const { return rows_.host<uint64_t>(); }
  // The counts of a row of the last step; and its samples below, above and NaN.
  const uint32_t* row(uint64_t r) const { return rows_.host<uint32_t>() + r * bin_count_; }
  const uint32_t* outside(uint64_t r) const {
    return row(step_rows_) + r * internal::kOutsideSlots;
  }
  void ReportPhases(BatchReport& report) const;

  // Lets a kernel go that fault injection made hang.
  void ReleaseHang();

  uint64_t pinned_bytes() const;
  uint64_t device_bytes() const;
  // Where Begin would gather a lone payload of that size: fragments of the pinned input. A batch
  // made of them is not gathered, which lets benchmarks start from pinned memory. While idle.
  std::vector<Fragment> PinnedFragments(uint64_t payload_bytes, const CudaKernel& kernel);

 private:
  // Consecutive pieces that travel together. In pinned memory: header, descriptors, bytes.
  struct Portion {
    uint32_t first_piece = 0, piece_count = 0;
    uint64_t begin = 0, bytes = 0;  // in the pinned input
    uint32_t units = 0;
  };
  struct Rung {
    uint32_t limit;  // blocks or bytes, as the kernel's ladder says
    GraphExec graph;
  };
  // The recorded launches of one kernel, the smallest limit first.
  struct Recorded {
    const CudaKernel* kernel;
    std::vector<Rung> rungs;
  };

  explicit Lane(const LaneOptions& options) : options_(options) {}
  absl::Status Allocate();
  absl::Status Record();
  absl::Status RecordRung(const Launch& launch, uint32_t limit, Recorded& recorded);
  absl::Status StartBatch(const Batch& batch);
  // Makes the device's bins of the plan. Returns the tables that they need, which go to the front
  // of the input. Even bins, if they are few enough, need none, unless `with_tables`.
  absl::Span<const uint8_t> SetBins(const Plan& plan, bool with_tables = false);
  void ChooseMode(const Batch& batch, const CudaKernel& kernel);
  void Layout(const Batch& batch, uint64_t begin);
  Portion WritePortion(uint32_t first_piece, uint32_t piece_count, uint64_t begin);
  bool InReceiveMemory(const Fragment& fragment) const;
  bool CanFetch(const Batch& batch) const;
  absl::Status FetchPortion(const Batch& batch);
  uint64_t Gather(const Batch& batch, const Portion& portion);
  absl::Status BeginMapped(const Batch& batch);
  absl::Status BeginCopied(const Batch& batch);
  absl::Status CopyPortion(const Batch& batch, size_t index);
  // Ends what a batch or a step queues: copies so many bytes of rows back.
  absl::Status CopyBack(uint64_t bytes);
  absl::Status EnqueueTypedPortion(const Portion& portion);
  absl::Status EnqueueTypedCount(uint64_t at, uint64_t bytes, uint64_t first_counter);
  absl::Status EnqueueTypedRows(const Portion& portion);
  void SumRows(const Batch& batch) const;
  void CopyTypedRows(const Batch& batch) const;
  Launch MakeLaunch(const Portion& portion, bool mapped);
  absl::Status BeginStep();
  absl::Status EndQueueing(uint64_t bytes);
  absl::Status InjectFault();
  // The kernel cannot write mapped memory: rows are copied, and there is no flag.
  bool RowsOnDevice() const { return kernel_ == nullptr || !kernel_->has_flag; }
  bool FlagIsSet() const;
  absl::Status WaitForEvent();

  const LaneOptions options_;
  Stream stream_, copy_stream_;
  Event copied_, done_, portion_copied_;
  PinnedBuffer input_, rows_, control_, host_pieces_;
  DeviceBuffer device_input_, device_rows_, scratch_, clean_;
  std::vector<Recorded> recorded_;

  // Of the batch that is executing.
  const CudaKernel* kernel_ = nullptr;  // of bytes; null: of typed samples
  bool piece_rows_ =
      false;              // of typed samples: a row of u32 for each piece, counts before outsides
  bool fetched_ = false;  // by the device, out of the receive memory, as one portion
  const Recorded* ladder_ = nullptr;      // set: read in place, by one of its graphs
  uint32_t sequence_ = 0;                 // what the flag will hold
  std::vector<Piece> pieces_;             // the row of each is its index
  std::vector<uint32_t> portion_pieces_;  // the first piece of each portion
  std::vector<Portion> portions_;
  uint64_t gather_ns_ = 0, start_ns_ = 0, launched_ns_ = 0, finished_ns_ = 0;

  // Of typed samples.
  SampleType sample_type_ = SampleType::kU8;
  uint32_t bin_count_ = 0;
  AnyTypedBins bins_;
  std::shared_ptr<const TypedPlan> typed_;  // null: the bins need no tables

  // Of the phases that are executing.
  uint64_t part_bytes_ = 0, step_rows_ = 0;
  uint64_t kernel_ns_ = 0;
};

// Executes the phases of a payload on a lane, which looks at it part by part. `wait` waits for the
// lane's device. If its outcome is not OK, the payload is not touched again. On success fills in
// the report's kernel and times. REQUIRES: the lane covers phases.needs(); the counters of a
// CountPhase, and of a plan of PlanOver, are at most kLaneCounters.
absl::Status RunPhases(Phases& phases, std::span<const Fragment> payload, Lane& lane,
                       absl::FunctionRef<absl::Status()> wait, BatchReport& report);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_H_
