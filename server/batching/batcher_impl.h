// The batcher's insides; included by its own sources only.
//
// The pattern of every entry: under the lock decide what is to be done and note it in a Work;
// release the lock and do it (RunWork): submit, report, call back. An entry counts itself in
// active_ for as long as it will touch this object again, and gives that up under the lock as its
// last deed: whoever waits for idleness may destroy the batcher the moment the lock is free.
#ifndef HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_
#define HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/mutex.h"
#include "server/batching/admission.h"
#include "server/batching/batcher.h"
#include "server/batching/fair_queue.h"
#include "server/batching/flight.h"
#include "server/batching/job_list.h"
#include "server/batching/policy.h"
#include "server/batching/preference.h"

namespace histogram::server {

// Why a backend's batches go elsewhere; a metric's label.
inline constexpr std::string_view kWatchdog = "watchdog";
inline constexpr std::string_view kDeviceLost = "device_lost";
inline constexpr std::string_view kOutOfMemory = "out_of_memory";
inline constexpr std::string_view kError = "error";

// Of a payload for which no backend is left.
absl::Status NoBackendUp();

class Batcher::Impl : public std::enable_shared_from_this<Batcher::Impl> {
 public:
  Impl(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
       Observer& observer);
  ~Impl();

  bool counts_typed() const {
    return std::popcount(bytes_only_) < static_cast<int>(backends_.size());
  }
  void StartThread();
  void StopThread();

  absl::StatusOr<Outcome> Enqueue(Job* job, WhenFull when_full) ABSL_LOCKS_EXCLUDED(mu_);
  TimeNs Pump() ABSL_LOCKS_EXCLUDED(mu_);
  // The same with a time that was just read.
  TimeNs PumpAt(TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  bool WaitIdle(TimeNs deadline) ABSL_LOCKS_EXCLUDED(mu_);
  Snapshot TakeSnapshot() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // A backend as the batcher sees it. One flight in `flights` is one credit in use.
  struct Executor {
    Backend* backend = nullptr;
    uint32_t lanes = 0;
    uint64_t lane_bytes = 0;
    uint32_t lane_payloads = 0;
    bool executes_inline = false;
    bool down = false;  // seen, or marked by the watchdog
    std::vector<Flight*> flights;
    // What a lane got done of late, older batches counting less: charged bytes and nanoseconds.
    double recent_bytes = 0, recent_ns = 0;

    uint32_t free() const { return lanes - static_cast<uint32_t>(flights.size()); }
  };

  // Pieces of one failed batch on their way to another backend.
  struct Retry {
    std::vector<Piece> pieces;  // last first
    uint64_t bytes = 0;
    BackendMask failed_on = 0;
    int from = -1;
    std::string_view reason;  // static text, a metric's label
    std::string message;      // of the failure
  };

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

  // What to do once the lock is released.
  struct Work {
    absl::InlinedVector<Flight*, 4> submits;
    absl::InlinedVector<Flight*, 2> delivered;  // came back with counts
    absl::InlinedVector<Finished, 2> finished;  // jobs to finish otherwise
    absl::InlinedVector<Job*, 4> admitted;
    uint32_t expired = 0, cancelled = 0;  // jobs dropped
    absl::InlinedVector<FellBack, 1> fell_back;
    absl::InlinedVector<Down, 1> downs;
    std::vector<std::shared_ptr<const void>> released;  // to be dropped without the lock

    bool empty() const {
      return submits.empty() && delivered.empty() && finished.empty() && admitted.empty() &&
             expired == 0 && cancelled == 0 && fell_back.empty() && downs.empty() &&
             released.empty();
    }
  };

  // --- batcher.cc
  // Room for a job of this charge, by the rules of Enqueue; OK, or why not.
  enum class Room : uint8_t { kYes, kNotNow, kTooLarge, kDraining };
  Room RoomLocked(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint32_t RetryAfterMsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does what is noted and then gives up this thread's share in active_. If the job `own`, which
  // this thread has brought, is cut over the CPU's lanes, one part is counted here: the thread is
  // awake.
  void RunWork(Work& work, Job* own = nullptr) ABSL_LOCKS_EXCLUDED(mu_);
  Flight* TakeOwn(Work& work, const Job* own);
  void Submit(Flight* flight) ABSL_LOCKS_EXCLUDED(mu_);
  // Executes the flight on this thread; returns when it was done.
  TimeNs ExecuteHere(Flight* flight, TimeNs started_at) ABSL_LOCKS_EXCLUDED(mu_);
  // The same for a flight of one whole job, which ends there if all goes well: then it is this
  // thread that must hand it over.
  Outcome CountLone(Flight* flight, Job* job, TimeNs started_at) ABSL_LOCKS_EXCLUDED(mu_);
  // The backend is done with the flight.
  void OnDone(Flight* flight, std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(mu_);
  void Report(Work& work);
  void Deliver(Work& work);
  void DeliverFlight(Flight& flight);
  // This thread is about to leave for good.
  void EndActiveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- dispatch.cc
  // Dispatches all that can be dispatched now; sets wake_at_.
  void PumpLocked(TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool DispatchFromLocked(FairQueue::SizeClass c, TimeNs now, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FormLocked(FairQueue::SizeClass c, const Decision& decision, TimeNs now, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves bytes of `job`, the front of its class, to the flight; returns whether it left the queue.
  bool TakeLocked(FairQueue::SizeClass c, Job* job, uint64_t bytes, TimeNs now, Flight& flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether nobody waits for the job any more.
  bool DeadLocked(const Job& job, TimeNs now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Drops jobs at the front of the class that nobody waits for; returns whether there were any.
  bool DropDeadLocked(FairQueue::SizeClass c, TimeNs now, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A flight for a job that may be counted on this thread, or null.
  Flight* TryInlineLocked(Job* job, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Backends that do not count such samples.
  BackendMask UnfitLocked(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return job.plan.has_value() || job.work != nullptr ? bytes_only_ : 0;
  }
  // `job` is the queue's first.
  Decision DecideLocked(TimeNs now, const QueueView& queue, const Job& job, BackendMask except,
                        bool with_delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Leaves in lanes_ one kind of backend, if both are up. Returns how many backends are left.
  size_t KeepOneKindLocked(TimeNs now, const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BothKindsUpLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<Placement> PlacementsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyLaneFreeLocked(BackendMask except) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TimeNs EtaLocked(const Executor& executor, TimeNs now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes a credit.
  Flight* NewFlightLocked(const Decision& decision, ClosedBy closed_by, TimeNs now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the credit.
  void LandLocked(Flight* flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecycleLocked(Flight* flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What follows from a flight that came back; dispatches what its lane can do next.
  void ReturnedLocked(Flight* flight, TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Learns from a batch that came back in time.
  void LearnLocked(const Flight& flight, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A piece has been counted, or never will be: finishes the job if it was the last.
  void EndPieceLocked(const Piece& piece, const absl::Status& status, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for a piece of a job that is dead.
  void DropPieceLocked(const Piece& piece, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A job that was charged is finished.
  void FinishLocked(Job* job, absl::Status status, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets waiting jobs in, as far as there is room.
  void AdmitLocked(TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- recovery.cc
  // Notes backends that went down; returns the mask of those that are up.
  BackendMask RefreshLocked(Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MarkDownLocked(int backend, std::string_view reason, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Pieces of `flight`, whose backend failed them, go to another backend if there is one.
  void RetryLocked(const Flight& flight, absl::Span<const Piece> pieces, std::string_view reason,
                   absl::string_view message, TimeNs now, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailRetryLocked(Retry& retry, BackendMask up, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PumpRetriesLocked(TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Drops the dead among the next pieces; returns whether any are left.
  bool TrimRetryLocked(Retry& retry, TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FormRetryLocked(Retry& retry, const Decision& decision, TimeNs now, Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Finishes everything in the queue: no backend is up.
  void FailQueueLocked(Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Condemns flights that have been executing for too long, and marks their backends down.
  std::vector<Flight*> CondemnLocked(TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the pieces off condemned flights and sends them elsewhere.
  void Quarantine(const std::vector<Flight*>& condemned, TimeNs now, Work& work)
      ABSL_LOCKS_EXCLUDED(mu_);
  void QuarantineLocked(Flight* flight, std::vector<std::shared_ptr<const void>>& owners,
                        TimeNs now, Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // When the watchdog wants to look again.
  TimeNs WatchdogAtLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `expected`: when it is to run first.
  void RunThread(TimeNs expected);
  // The process stood still for `ns`: nothing that executed then is to blame.
  void ForgiveLocked(TimeNs ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<Backend*> backends_;
  Clock& clock_;
  Observer& observer_;
  const uint64_t watchdog_ns_;    // 0: none
  const BackendMask bytes_only_;  // backends that count no typed samples

  Mutex mu_;
  BatchingLimits limits_ ABSL_GUARDED_BY(mu_);  // Drain ends the delay
  std::vector<Executor> executors_ ABSL_GUARDED_BY(mu_);
  FairQueue queue_ ABSL_GUARDED_BY(mu_);
  Admission admission_ ABSL_GUARDED_BY(mu_);
  std::vector<Retry> retries_ ABSL_GUARDED_BY(mu_);  // first come, first served
  std::vector<std::unique_ptr<Flight>> flights_ ABSL_GUARDED_BY(mu_);
  std::vector<Flight*> idle_flights_ ABSL_GUARDED_BY(mu_);
  // Only where there are both kinds of backend to choose.
  std::optional<Preference> preference_ ABSL_GUARDED_BY(mu_);
  std::vector<LaneView> lanes_ ABSL_GUARDED_BY(mu_);  // scratch of DecideLocked

  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;  // for room, or being told Admitted
  uint64_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;      // jobs that have left the queue, unfinished
  uint64_t accepted_ ABSL_GUARDED_BY(mu_) = 0;       // jobs taken whose Done is not yet due
  uint64_t active_ ABSL_GUARDED_BY(mu_) = 0;         // threads that will touch this object again
  bool admitting_ ABSL_GUARDED_BY(mu_) = false;      // a thread is telling jobs Admitted
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  TimeNs wake_at_ ABSL_GUARDED_BY(mu_) = kNever;  // when the queue wants Pump
  CondVar idle_;

  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  TimeNs sleeps_until_ ABSL_GUARDED_BY(mu_) = 0;  // of the thread, while it sleeps; else 0
  CondVar wake_thread_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_
