// A batch on its way through a backend, with all that a lane uses, even one that hangs.
//
// A flight owns the rows that the backend counts into, and the cut fragments that it reads. A job
// gets its results only if the batch comes back in time. Flights are pooled and keep their memory.
//
// Credits owns it. The batcher's lock guards its members, with one exception: the thread
// that prepares a flight (until started_at is set) or delivers it (after its credit was returned)
// needs no lock. The watchdog does not touch such flights.
#ifndef HISTOGRAM_SERVER_BATCHING_FLIGHT_H_
#define HISTOGRAM_SERVER_BATCHING_FLIGHT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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
  TimeNs formed_at = 0;
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

// Clears the counts of a job that is cut, before its first piece is counted.
void ClearCounts(Job& job);

// Appends bytes [offset, offset + bytes) of `fragments` to `out`, as fragments: it copies no
// payload. REQUIRES: offset + bytes is at most the sum of the fragments' sizes.
void CutFragments(absl::Span<const Fragment> fragments, uint64_t offset, uint64_t bytes,
                  std::vector<Fragment>& out);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_FLIGHT_H_
