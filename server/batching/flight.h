// A batch on its way through a backend, with all that a lane uses, even one that hangs.
//
// A flight owns the rows that the backend counts into, and the cut fragments that it reads. A job
// gets its results only if the batch comes back in time. Flights are pooled and keep their memory.
//
// Placer owns it. The batcher's lock guards its members, with one exception: the thread
// that prepares a flight (until started_at is set) or delivers it (after its lane was returned)
// needs no lock. The watchdog does not touch such flights.
#ifndef HISTOGRAM_SERVER_BATCHING_FLIGHT_H_
#define HISTOGRAM_SERVER_BATCHING_FLIGHT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "kernels/batch.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/job.h"

namespace histogram::server {

// One bit for each backend.
using BackendMask = uint64_t;
inline constexpr size_t kBackendsMax = 64;

// Bytes [offset, offset + bytes) of a job's payload.
struct Piece {
  Job* job = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool whole = true;  // all of the payload, and the only piece of it
};

struct Flight {
  bool quarantined = false;  // the watchdog has removed its pieces; the backend still has it
  int backend = -1;
  ClosedBy closed_by = ClosedBy::kIdle;
  std::vector<Piece> pieces;
  uint64_t bytes = 0;       // of all pieces
  uint32_t whole_jobs = 0;  // pieces that are whole jobs
  std::atomic<TimeNs> started_at{kNever};

  std::unique_ptr<Batch> batch;             // null while the backend has it
  std::vector<std::vector<uint64_t>> rows;  // the backend counts pieces[i] into rows[i]
  std::vector<Fragment> cut;                // the fragments of pieces that are not whole, in order

  // Quarantined flights only: the owners of the bytes that the lane may still read.
  std::vector<std::shared_ptr<const void>> owners;

  void Add(const Piece& piece);
  // Fills the batch from the pieces. Called once, without the lock, before the batch is submitted.
  void Prepare();
  // Moves the counts of a whole piece of `pieces` to its job.
  void Give(const Piece& piece);
  // Adds the counts of a piece of `pieces` to its job's.
  void AddUp(const Piece& piece);
  // Makes it like a new flight. Keeps its memory.
  void Reset();
};

// --- Work for the batcher after it has released its lock. Decisions under the lock note it here.

// Why a backend's batches go to another one. A label of metrics.
inline constexpr std::string_view kWatchdog = "watchdog";
inline constexpr std::string_view kDeviceLost = "device_lost";
inline constexpr std::string_view kOutOfMemory = "out_of_memory";
inline constexpr std::string_view kBatchFailed = "error";

struct Outbox {
  struct Finished {
    Job* job = nullptr;
    absl::Status status;
  };
  struct FellBack {
    int from = -1, to = -1;
    std::string_view reason;
  };
  struct Down {
    int backend = -1;
    std::string_view reason;
  };

  absl::InlinedVector<Flight*, 4> submits;    // to their backends
  absl::InlinedVector<Flight*, 2> delivered;  // came back with counts; their whole jobs are done
  absl::InlinedVector<Finished, 2> finished;  // the other jobs that are done
  uint32_t expired = 0, cancelled = 0;        // jobs dropped, to be reported
  absl::InlinedVector<FellBack, 1> fell_back;
  absl::InlinedVector<Down, 1> downs;

  bool empty() const {
    return submits.empty() && delivered.empty() && finished.empty() && expired + cancelled == 0 &&
           fell_back.empty() && downs.empty();
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_FLIGHT_H_
