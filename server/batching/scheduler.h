// The queue: its jobs, their charges, and the batches that are formed of them.
//
// An accepted job waits for room (admission.h), then in the fair queue, then for the lanes of its
// pieces. Landed ends a job that was counted whole. EndPiece of the last piece ends any other job.
// A job is charged from its entry into the queue until its end.
//
// A job of which a backend failed a piece waits for its other pieces and goes back into the queue:
// other backends count it from the beginning, alone in its batches. The watchdog takes the pieces
// of a batch that executes for too long off its lane; they have failed.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. Owns no job. The
// limits and the placer outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_SCHEDULER_H_
#define HISTOGRAM_SERVER_BATCHING_SCHEDULER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/batching/admission.h"
#include "server/batching/fair_queue.h"
#include "server/batching/flight.h"
#include "server/batching/inline_gate.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"
#include "server/batching/placer.h"
#include "server/batching/snapshot.h"

namespace histogram::server {

class Scheduler {
 public:
  enum class Room : uint8_t { kYes, kNotNow, kTooLarge, kDraining };
  // Why a job is refused. Made under the lock; ToStatus runs without it.
  struct Refusal {
    Room room = Room::kNotNow;
    uint64_t charge = 0, charged = 0, held = 0, limit = 0;
    uint32_t retry_after_ms = 0;
    absl::Status ToStatus() const;
  };

  Scheduler(const BatchingLimits& limits, Placer& placer);

  // Whether there is room for the job.
  Room RoomFor(const Job& job) const;
  Refusal Refuse(const Job& job, Room room) const;

  // Whether the job is cancelled or expired.
  static bool Unwanted(const Job& job, TimeNs now);
  // Accepts the job into the queue. REQUIRES: RoomFor(*job) is kYes.
  void Enter(Job* job, TimeNs now);
  // Accepts the job; it waits for room. REQUIRES: RoomFor(*job) is kNotNow.
  void Wait(Job* job, TimeNs now);

  // Forms all batches that can be formed now. Lets waiting jobs in as far as there is room.
  void Pump(TimeNs now, Outbox& outbox);
  // The time of the next Pump, if nothing happens before.
  TimeNs wake_at() const { return wake_at_; }
  // The payloads that a receiving thread may count itself now, without overtaking one that waits.
  InlineGate::Classes InlineClasses() const;

  // The flight's batch was counted. Ends its whole jobs; the thread that delivers the flight calls
  // their Done.
  void Landed(Flight& flight, Outbox& outbox);
  // The flight's backend failed it. `reason` is static text.
  void Failed(const Flight& flight, std::string_view reason, const absl::Status& error,
              Outbox& outbox);

  // --- The watchdog
  // Takes the pieces off the flights that hang, and marks their backends down.
  void Quarantine(TimeNs now, Outbox& outbox);
  // The time at which the next batch will have executed for too long.
  TimeNs WatchdogAt() const;
  // The process was stopped for `ns`: batches that executed then get this time back.
  void Forgive(TimeNs ns);

  // From now on RoomFor returns kDraining.
  void Drain() { draining_ = true; }
  // Whether all accepted jobs are finished.
  bool idle() const { return accepted_ == 0; }
  // The gauges of queue and jobs.
  void Report(BatcherSnapshot& snapshot) const;

 private:
  void Accept(Job* job, TimeNs now);
  // Whether the job has failed. One that nobody wants any more fails here.
  static bool IsDead(Job& job, TimeNs now, Outbox& outbox);
  // Drops dead jobs at the front of the class, and those to be counted again; returns whether there
  // were any.
  bool DropDead(FairQueue::SizeClass c, TimeNs now, Outbox& outbox);
  bool DispatchFrom(FairQueue::SizeClass c, TimeNs now, Outbox& outbox);
  void Form(FairQueue::SizeClass c, const Decision& decision, TimeNs now, Outbox& outbox);
  // Whether the first job of the class may join the flight.
  bool MayJoin(FairQueue::SizeClass c, const Flight& flight, const Decision& decision);
  // Moves bytes of `job`, the first of its class, to the flight; returns whether it left the queue.
  bool TakeFrom(FairQueue::SizeClass c, Job* job, uint64_t bytes, TimeNs now, Flight& flight);
  // Lets waiting jobs in, as far as there is room; returns whether any entered the queue.
  bool LetIn(TimeNs now, Outbox& outbox);
  // A piece was counted, or never will be. If it is the last one, ends its job, or queues it again.
  void EndPiece(const Piece& piece, Outbox& outbox);
  void Finish(Job* job, Outbox& outbox);
  // The failure of a job that no backend of `up` can count.
  absl::Status NoBackendFor(const Job& job, BackendMask up, BackendMask unfit) const;

  const BatchingLimits& limits_;
  const TimeNs batch_ns_max_;  // a batch that executes longer is taken to hang
  Placer& placer_;
  FairQueue queue_;
  Admission admission_;
  uint64_t waiting_ = 0;    // jobs, for room
  uint64_t in_flight_ = 0;  // jobs that have left the queue, unfinished
  uint64_t accepted_ = 0;   // jobs that are not finished
  bool draining_ = false;
  TimeNs wake_at_ = kNever;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_SCHEDULER_H_
