// What must hold in the simulated world.
#include <algorithm>
#include <string>

#include "kernels/error.h"
#include "tests/simulation/world.h"

namespace histogram::server {

World::Caller World::Look(uint64_t id) const {
  Caller caller;
  for (const auto& [number, job] : live_) {
    if (job->caller != id) continue;
    job->waiting() ? ++caller.waiting : caller.held_bytes += job->charge_bytes;
  }
  return caller;
}

void World::CheckRefusal(const absl::Status& status, uint64_t charge,
                         const Batcher::Snapshot& before, const Caller& caller, bool waits) {
  const std::string reason = GetErrorDetail(status).reason;
  if (drained_) {
    EXPECT_EQ(reason, "DRAINING");
  } else if (charge > limits_.queue_bytes_max) {
    EXPECT_EQ(reason, "PAYLOAD_TOO_LARGE");
  } else {
    EXPECT_EQ(reason, "QUEUE_FULL");
    EXPECT_FALSE(waits);
    const uint64_t after = before.charged_bytes + charge;
    EXPECT_TRUE(before.waiting > 0 || after > limits_.queue_bytes_max ||
                caller.held_bytes + charge > 2 * (limits_.queue_bytes_max - after));
  }
}

void World::CheckOutcome(const SimulatedJob& job, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      EXPECT_TRUE(job.exact()) << "of message " << job.message().number;
      EXPECT_GT(job.report.payloads, 0u);
      break;
    case absl::StatusCode::kCancelled:
      EXPECT_TRUE(job.cancelled);
      break;
    case absl::StatusCode::kDeadlineExceeded:
      EXPECT_GE(clock_.Now(), job.deadline);
      break;
    case absl::StatusCode::kInternal:
      EXPECT_TRUE(failures_ > 0 || !AllUp()) << "nothing ever failed";
      break;
    case absl::StatusCode::kUnavailable:
      EXPECT_FALSE(AnyUp());
      break;
    default:
      ADD_FAILURE() << status;
  }
}

// REQUIRES: Pump was called as of now.
void World::CheckWatchdog() const {
  for (const auto& each : puppets_) {
    for (size_t i = 0; i < each->held(); ++i) {
      const auto us = static_cast<uint64_t>(clock_.Now() - each->held_since(i)) / 1000;
      EXPECT_TRUE(!each->up() || us <= limits_.batch_us_max) << "a hanging lane is overlooked";
    }
  }
}

bool World::AnyHeld() const {
  return std::any_of(puppets_.begin(), puppets_.end(), [](const auto& p) { return p->held() > 0; });
}

// False also where the watchdog has taken a backend down.
bool World::AllUp() const {
  return std::all_of(puppets_.begin(), puppets_.end(), [](const auto& p) { return p->up(); });
}

bool World::AnyUp() const {
  return std::any_of(puppets_.begin(), puppets_.end(), [](const auto& p) { return p->up(); });
}

void World::Check() {
  const Batcher::Snapshot snapshot = batcher_->snapshot();
  uint64_t charged = 0, waiting = 0;
  std::map<uint64_t, uint64_t> of_caller;  // jobs that wait
  for (const auto& [number, job] : live_) {
    if (job->waiting()) {
      ++waiting;
      ++of_caller[job->caller];
      continue;
    }
    charged += job->charge_bytes;
    EXPECT_TRUE(!job->told_to_wait || of_caller[job->caller] == 0)
        << "of one caller first come, first served";
  }
  EXPECT_EQ(snapshot.queue_payloads + snapshot.in_flight + snapshot.waiting, live_.size());
  EXPECT_EQ(snapshot.waiting, waiting);
  EXPECT_EQ(snapshot.charged_bytes, charged);
  EXPECT_LE(snapshot.charged_bytes, limits_.queue_bytes_max);
  EXPECT_TRUE(snapshot.queue_payloads > 0 || snapshot.queue_bytes == 0);
  size_t held = 0;
  for (size_t i = 0; i < puppets_.size(); ++i) {
    EXPECT_EQ(snapshot.backends[i].lanes_busy, puppets_[i]->held());
    held += puppets_[i]->held();
  }
  // Something that waits waits for a batch, or for a time.
  if (held == 0 && !live_.empty()) {
    const TimeNs wake_at = batcher_->Pump();
    EXPECT_TRUE(wake_at != kNever || live_.empty() || AnyHeld()) << "nothing will ever happen";
    EXPECT_TRUE(limits_.batch_delay_us_max > 0 || live_.empty() || AnyHeld()) << "idle lanes";
  }
  EXPECT_TRUE(!live_.empty() || batcher_->WaitIdle(clock_.Now()));
  CheckBudgets();
}

void World::CheckBudgets() {
  uint64_t unread = 0, ahead = 0, most = 0;
  for (const auto& call : calls_) {
    unread += call->held() / CallGuard::kStep * CallGuard::kStep;
    ahead += call->read_ahead();
    most += call->read_ahead_most();
    // Nothing but the client, the loop or a lane may keep a call: else it waits for ever.
    EXPECT_TRUE(call->reading() || call->writing() || call->dry_asked_ || call->away_ > 0 ||
                call->over())
        << "a call hangs: holds " << call->held() << " for replies, " << call->read_ahead()
        << " read ahead; all hold " << replies_.bytes() << " and " << ahead_.bytes();
  }
  EXPECT_EQ(replies_.bytes(), unread);
  EXPECT_LE(replies_.bytes(), 2 * replies_.limit());
  EXPECT_EQ(ahead_.bytes(), ahead);
  // A stream begins to read while there is room, and each has one message under way.
  EXPECT_LE(ahead_.bytes(), ahead_.limit() + most);
  if (ahead_.bytes() >= ahead_.limit()) ++seen_.full_ahead;
}

}  // namespace histogram::server
