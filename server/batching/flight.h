// One batch on its way through a backend, with all that must outlive a lane that hangs.
//
// A flight owns the rows that the backend counts into and the cut fragments it reads; results reach
// a job only when the batch has come back in time. Flights are pooled and keep their memory.
//
// The batcher owns it all the time. The batcher's lock guards its members, with one exception: the
// thread that prepares a flight (until started_at is set) or delivers it (kDelivering) needs no
// lock, since the watchdog leaves such flights alone.
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

// A bit a backend.
using BackendMask = uint64_t;
inline constexpr size_t kBackendsMax = 64;

// Bytes [offset, offset + bytes) of a job's payload.
struct Piece {
  Job* job = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool whole = true;  // all of the payload, and the only piece of it
  uint32_t row = 0;   // of the flight that it is in
};

struct Flight {
  enum class State : uint8_t {
    kIdle,         // in the pool
    kExecuting,    // the backend has it, or (started_at is kNever) will have it in a moment
    kCondemned,    // the watchdog is taking its pieces off
    kQuarantined,  // they are off; the backend still has it
    kDelivering,   // came back
  };

  State state = State::kIdle;
  bool returned = false;  // came back while condemned
  int backend = -1;
  BackendMask failed_on = 0;  // backends that failed these pieces before
  size_t slot = 0;            // index into the backend's list of flights
  ClosedBy closed_by = ClosedBy::kIdle;
  std::vector<Piece> pieces;
  uint64_t bytes = 0;   // of all pieces
  uint64_t charge = 0;  // of the whole jobs
  uint32_t wholes = 0;  // pieces that are whole jobs
  TimeNs formed_at = 0;
  TimeNs expected_end = 0;
  std::atomic<TimeNs> started_at{kNever};

  std::unique_ptr<Batch> batch;  // null while the backend has it
  // What the backend counts a piece into: bytes in rows[piece.row], typed samples in
  // slots[piece.row].
  std::vector<ValueCounts> rows;
  std::vector<std::vector<uint64_t>> slots;
  std::vector<Fragment> cut;  // the fragments of pieces that are not whole, one after the other

  // Of a quarantined flight: what keeps alive the bytes that the lane may still read, and the
  // batcher that the lane will report to, should it ever come back.
  std::vector<std::shared_ptr<const void>> owners;
  std::shared_ptr<void> batcher;

  // Adds a piece; its row is its place.
  void Add(Piece piece);
  // Puts `remaining`, which were in this flight, in the place of all pieces; rows stay.
  void Keep(std::vector<Piece> remaining);
  // Fills the batch from the pieces. Called once, without the lock, while forming.
  void Prepare();
  // Hands the counts of a piece, which is all of its job, to the job.
  void Give(const Piece& piece);
  // Adds the counts of a piece to those of its job.
  void AddUp(const Piece& piece);
  // Back to what a new flight is; keeps memory.
  void Reset();

 private:
  void Account(const Piece& piece);
};

// Before the first piece of a job that is cut is counted.
void ClearCounts(Job& job);

// Bytes [offset, offset + bytes) of `fragments`, appended to `out` as fragments; no payload is
// copied. REQUIRES: offset + bytes is at most the sum of the fragments' sizes.
void CutFragments(absl::Span<const Fragment> fragments, uint64_t offset, uint64_t bytes,
                  std::vector<Fragment>& out);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_FLIGHT_H_
