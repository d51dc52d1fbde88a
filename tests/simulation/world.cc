#include "tests/simulation/world.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "tests/base/no_observer.h"

namespace histogram::server {
namespace {

constexpr int kSteps = 300;
constexpr size_t kCallsMax = 12;
constexpr TimeNs kSecond = 1'000'000'000;

}  // namespace

World::World(uint64_t seed, Seen& seen)
    : random_(seed),
      ahead_(kReadAheadBytesMin * (1 + Below(8)), kReadAheadBytesMin),
      memory_(4 * CallGuard::kStep * (4 + Below(60)), [](uint64_t) { return uint64_t{0}; }),
      seen_(seen),
      calm_(Chance(50)) {
  MakeLimits();
  MakeBackends();
  std::vector<Backend*> backends;
  for (const auto& each : puppets_) backends.push_back(each.get());
  batcher_ = std::make_unique<Batcher>(backends, limits_, clock_, Nobody(), false);
}

World::~World() {
  // After a failure: the batcher waits for what its backends hold.
  for (int round = 0; round < 1000 && batcher_ != nullptr && !live_.empty(); ++round) {
    clock_.AdvanceUs(1000);
    batcher_->Pump();
    for (const auto& each : puppets_) each->CompleteAll();
  }
  for (const auto& each : puppets_) each->CompleteAll();
}

void World::MakeLimits() {
  limits_.queue_bytes_max = 4000 + Below(30000);
  limits_.batch_payloads_max = static_cast<uint32_t>(1 + Below(8));
  limits_.batch_bytes_max = 500 + Below(6000);
  limits_.batch_delay_us_max = Chance(30) ? 1 + Below(500) : 0;
  limits_.batch_us_max = 2000;
  limits_.inline_bytes_max = Chance(50) ? Below(600) : 0;
  limits_.split_bytes_min = 300 + Below(4000);
  limits_.small_bytes_max = Below(1500);
}

void World::MakeBackends() {
  const uint64_t count = 1 + Below(3);
  for (uint64_t i = 0; i < count; ++i) {
    PuppetOptions options;
    options.name = "backend" + std::to_string(i);
    options.lanes = static_cast<uint32_t>(1 + Below(4));
    if (Chance(50)) options.lane_bytes = 200 + Below(4000);
    if (Chance(50)) options.lane_payloads = static_cast<uint32_t>(1 + Below(6));
    options.kind = Chance(50) ? BackendKind::kCpu : BackendKind::kGpu;
    options.clock = &clock_;
    PuppetBackend& puppet = *puppets_.emplace_back(std::make_unique<PuppetBackend>(options));
    const uint64_t fixed = Below(100'000), per_byte = Below(50);
    puppet.set_estimate(
        [fixed, per_byte](const Workload& w) { return fixed + per_byte * w.batch_bytes; });
    // Now and then an inline count fails, or something happens while it runs.
    puppet.set_on_execute([this, &puppet] {
      const bool fails = Chance(5);
      failures_ += fails ? 1 : 0;
      puppet.set_execute_status(fails ? absl::InternalError("inline") : absl::OkStatus());
      if (Chance(10)) Pass();
      OpenFromCallback();
    });
  }
}

// --- For the calls and the jobs

std::unique_ptr<Message> World::NewMessage(SimulatedCall& call) {
  const uint64_t ranges[] = {1, 100, 1000, 8000};
  auto message = std::make_unique<Message>();
  message->call = &call;
  message->number = ++numbers_;
  message->payload = std::make_shared<TestPayload>(Below(ranges[Below(4)]), message->number);
  message->received_bytes = message->payload->size * (Chance(30) ? 64 : 1);
  message->reply_bytes = Chance(30) ? Below(5 * CallGuard::kStep) : Below(500);
  message->snapshot = Chance(20);
  payloads_.push_back(message->payload);
  return message;
}

bool World::Enqueue(Message& message, bool waits) {
  auto owned = std::make_unique<SimulatedJob>(*this, message);
  SimulatedJob* job = owned.get();
  const uint64_t number = message.number;
  const uint64_t charge = job->charge_bytes = job->bytes + Below(200);
  job->caller = message.call->caller();
  job->for_lane = Chance(20);
  if (Chance(15)) job->deadline = clock_.Now() + static_cast<TimeNs>(Below(1'500'000));
  job->cancelled = message.call->cancelled();
  const Caller caller = Look(job->caller);
  const Batcher::Snapshot before = batcher_->snapshot();
  // It may be done and gone before Enqueue has returned.
  live_.emplace(number, job);
  const auto outcome =
      batcher_->Enqueue(job, waits ? Batcher::WhenFull::kWait : Batcher::WhenFull::kRefuse);
  if (!outcome.ok()) {
    EXPECT_EQ(live_.erase(number), 1u) << "done, although it was refused";
    CheckRefusal(outcome.status(), charge, before, caller, waits);
    ++seen_.refused;
    message.status = outcome.status();
    message.payload.reset();
    return false;
  }
  if (*outcome == Batcher::Outcome::kCounted) {
    EXPECT_EQ(live_.erase(number), 1u) << "counted where it arrived, and Done was called";
    EXPECT_FALSE(job->for_lane);
    CheckOutcome(*job, absl::OkStatus());
    message.payload.reset();
    return false;
  }
  owned.release();  // NOLINT(bugprone-unused-return-value): it deletes itself
  if (*outcome == Batcher::Outcome::kQueued && callbacks_ == 0) {
    EXPECT_EQ(caller.waiting, 0u) << "overtook those of its caller that wait";
  }
  if (*outcome == Batcher::Outcome::kWaiting) {
    EXPECT_TRUE(waits);
    ++seen_.waited;
    message.waited = true;
    if (live_.contains(number)) job->told_to_wait = true;
  }
  return true;
}

void World::CancelJob(uint64_t number) {
  if (const auto job = live_.find(number); job != live_.end()) job->second->cancelled = true;
}

void World::OnDone(SimulatedJob& job, const absl::Status& status) {
  Message& message = job.message();
  EXPECT_EQ(live_.erase(message.number), 1u) << "done twice, or never taken";
  CheckOutcome(job, status);
  message.status = status;
  message.payload.reset();
  posted_.push_back(&message);
  OpenFromCallback();
}

// --- What may happen

void World::Run() {
  for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
    Step();
    CloseWhatIsOver();
    Check();
  }
  if (!testing::Test::HasFailure()) Finish();
  seen_.replied_bytes += ledger_.replied_bytes();
  seen_.failed_bytes += ledger_.failed_bytes();
}

template <typename Which>
SimulatedCall* World::Pick(Which&& which) {
  std::vector<SimulatedCall*> found;
  for (const auto& call : calls_) {
    if (which(*call)) found.push_back(call.get());
  }
  return found.empty() ? nullptr : found[Below(found.size())];
}

void World::Step() {
  const uint64_t what = Below(100);
  if (what < 10) {
    if (calls_.size() < kCallsMax && !draining_) OpenCall(Chance(40));
  } else if (what < 38) {
    if (auto* call = Pick([](auto& c) { return c.reading(); })) call->ReadDone();
  } else if (what < 52) {
    if (auto* call = Pick([](auto& c) { return c.writing() && c.client_reads; })) call->WriteDone();
  } else if (what < 66) {
    RunPosted();
  } else if (what < 70) {
    RunDry();
  } else if (what < 84) {
    Return(false);
  } else if (what < 86) {
    Return(true);
  } else if (what < 88) {
    if (auto* call = Pick([&](auto& c) { return !c.ended(); }); call != nullptr && Chance(50)) {
      call->Cancel();
    }
  } else if (what < 95) {
    Pass();
  } else if (what < 96) {
    if (Chance(20)) Drain();
  } else if (what < 97) {
    if (!calm_ && Chance(15)) {
      ++failures_;
      ++seen_.lost;
      puppets_[Below(puppets_.size())]->Lose();
    }
  } else if (what < 98) {
    if (Chance(20)) PassLong();
  } else {
    batcher_->Pump();
    EndStalled();
  }
}

void World::OpenCall(bool only_compute) {
  const uint64_t caller = Below(4);
  const uint64_t kind = only_compute ? 0 : 1 + Below(2);
  std::unique_ptr<SimulatedCall> owned;
  if (kind == 0) {
    owned = std::make_unique<ComputeCall>(*this, caller, 1);
  } else if (kind == 1) {
    owned = std::make_unique<ComputeManyCall>(*this, caller, Below(40),
                                              static_cast<uint32_t>(1 + Below(8)));
  } else {
    owned = std::make_unique<AccumulateCall>(*this, caller, Below(40));
  }
  SimulatedCall& call = *calls_.emplace_back(std::move(owned));
  call.client_reads = Chance(85);
  call.Open();
}

// A call whose message arrives while something else happens.
void World::OpenFromCallback() {
  if (++depth_ <= 3 && Chance(5) && calls_.size() < 2 * kCallsMax) {
    ++callbacks_;
    OpenCall(true);
    calls_.back()->ReadDone();
    --callbacks_;
  }
  --depth_;
}

void World::Return(bool fail) {
  std::vector<PuppetBackend*> holding;
  for (const auto& each : puppets_) {
    if (each->held() > 0) holding.push_back(each.get());
  }
  if (holding.empty()) return;
  PuppetBackend& puppet = *holding[Below(holding.size())];
  const size_t index = Below(puppet.held());
  if (!fail) {
    if (!puppet.up()) ++failures_;  // it may have been refused
    puppet.Complete(index);
    return;
  }
  ++failures_;
  const absl::Status statuses[] = {absl::InternalError("x"), absl::ResourceExhaustedError("y"),
                                   absl::DeadlineExceededError("z")};
  puppet.Fail(statuses[Below(3)], index);
}

void World::RunPosted() {
  if (posted_.empty()) return;
  Message& message = *posted_.front();
  posted_.pop_front();
  --message.call->away_;
  message.call->Returned(message);
}

void World::RunDry() {
  while (!posted_.empty()) RunPosted();
  if (auto* call = Pick([](auto& c) { return c.dry_asked_; })) {
    call->dry_asked_ = false;
    call->Dry();
  }
}

void World::CloseWhatIsOver() {
  calls_.remove_if([](const std::unique_ptr<SimulatedCall>& call) {
    if (!call->over()) return false;
    call->Close();
    return true;
  });
}

// Time passes, rarely so much that lanes are given up.
void World::Pass() {
  const bool jump = !calm_ && Chance(3);
  clock_.AdvanceNs(static_cast<int64_t>(Below(jump ? 5'000'000 : 200'000)));
  if (jump) ++failures_;
  if (Chance(70)) {
    batcher_->Pump();
    CheckWatchdog();
  }
}

// So much that clients that read nothing are given up; lanes only where they may be.
void World::PassLong() {
  if (calm_ && AnyHeld()) return;
  clock_.AdvanceNs(static_cast<int64_t>(Below(Chance(50) ? 5 : 90)) * kSecond);
  ++failures_;
  batcher_->Pump();
  EndStalled();
}

// As the server does: the streams first; the batcher when the calls are over, or cancelled.
void World::Drain() {
  if (!std::exchange(draining_, true)) {
    ++seen_.drained;
    for (const auto& call : calls_) call->Drain();
  } else if (!std::exchange(drained_, true)) {
    batcher_->Drain();
  }
}

void World::EndStalled() {
  const TimeNs now = clock_.Now();
  CallGuard::Calls calls;
  for (const auto& call : calls_) calls.push_back(&call->memory_);
  uint64_t bytes = 0;
  const CallGuard::Calls stalled = guard_.ChooseUnread(calls, bytes);
  for (const auto& call : calls_) {  // in an order that does not depend on addresses
    if (!std::count(stalled.begin(), stalled.end(), &call->memory_)) continue;
    ++seen_.unread;
    EXPECT_TRUE(call->writing()) << "ended, though it owes nothing";
    const TimeNs took = now - call->writing_since();
    EXPECT_TRUE(took > CallGuard::kWriteMax ||
                (took > CallGuard::kWriteMaxWhenFull && replies_.bytes() > replies_.limit()))
        << "a slow reader is ended without need";
    if (!call->cancelled()) call->Cancel();
  }
  for (const auto& call : calls_) {
    if (!call->writing() || !call->held_when_written() || call->cancelled()) continue;
    const auto patience =
        CallGuard::kWriteMax +
        static_cast<TimeNs>(call->held() / CallGuard::kBytesPerSecondMin + 1) * kSecond;
    EXPECT_LE(now - call->writing_since(), patience) << "a client that reads nothing is overlooked";
  }
  for (const auto& call : calls_) {
    if (call->writing() && call->cancelled()) call->WriteDone();
  }
}

// Lets everything come to its end; no schedule may leave anything stuck.
void World::Finish() {
  for (int round = 0; round < 5'000 && (!live_.empty() || !calls_.empty()); ++round) {
    if (testing::Test::HasFailure()) return;
    clock_.AdvanceUs(1 + static_cast<int64_t>(Below(300)));
    batcher_->Pump();
    if (Chance(90)) Return(false);
    if (auto* call = Pick([](auto& c) { return c.reading(); })) call->ReadDone();
    if (auto* call =
            Pick([](auto& c) { return c.writing() && (c.client_reads || c.cancelled()); })) {
      call->WriteDone();
    }
    RunDry();
    // Whoever is owed less than a step may take for ever over it: the client's deadline ends it.
    if (auto* call = Pick([](auto& c) {
          return c.writing() && !c.client_reads && !c.held_when_written() && !c.cancelled();
        })) {
      call->Cancel();
    }
    if (!AnyHeld() && Chance(5)) {
      clock_.AdvanceNs(20 * kSecond);
      batcher_->Pump();
      ++failures_;
    }
    EndStalled();
    CloseWhatIsOver();
    Check();
  }
  EXPECT_TRUE(live_.empty()) << live_.size() << " jobs are stuck";
  EXPECT_TRUE(calls_.empty()) << calls_.size() << " calls are stuck";
  if (live_.empty() && calls_.empty()) {
    ledger_.ExpectBalanced();
    EXPECT_EQ(replies_.bytes(), 0u);
    EXPECT_EQ(ahead_.bytes(), 0u);
    EXPECT_EQ(batcher_->snapshot().charged_bytes, 0u);
  }
  for (const auto& each : puppets_) each->CompleteAll();
  batcher_.reset();
  for (const auto& payload : payloads_) EXPECT_TRUE(payload.expired()) << "a payload leaked";
}

}  // namespace histogram::server
