// Scheduler and Recovery without a batcher around them: no lock, no thread, nothing is executed.
#include "server/batching/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "server/batching/recovery.h"
#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

using Room = Scheduler::Room;

class SchedulerTest : public testing::Test {
 protected:
  static BatchingLimits Limits() {
    return {.queue_bytes_max = 10000, .batch_bytes_max = 5000, .inline_bytes_max = 0};
  }

  // The flight's batch comes back with counts, or with an error.
  void Land(Flight* flight, bool good, TimeNs now) {
    flight->Prepare();
    credits_.Return(flight);
    if (good) {
      scheduler_.Landed(*flight, outbox_);
    } else {
      recovery_.Retry(*flight, kBatchFailed, "it failed", now, outbox_);
    }
    credits_.Recycle(flight);
  }
  Flight* OnlySubmit() {
    EXPECT_EQ(outbox_.submits.size(), 1u);
    Flight* flight = outbox_.submits.empty() ? nullptr : outbox_.submits.front();
    outbox_.submits.clear();
    return flight;
  }
  BatcherSnapshot gauges() const {
    BatcherSnapshot snapshot;
    scheduler_.Report(snapshot);
    return snapshot;
  }

  BatchingLimits limits_ = Limits();
  PuppetBackend gpu_{{.name = "cuda:0", .lanes = 1}};
  PuppetBackend other_{{.name = "cuda:1", .lanes = 1, .lane_bytes = 800}};
  Credits credits_{{&gpu_, &other_}};
  Placer placer_{limits_, credits_};
  Scheduler scheduler_{limits_, credits_, placer_};
  Recovery recovery_{/*batch_ns_max=*/1000, credits_, placer_, scheduler_};
  Outbox outbox_;
};

TEST_F(SchedulerTest, AJobIsChargedFromTheQueueToItsEnd) {
  TestJob job(400);
  EXPECT_EQ(scheduler_.RoomFor(job), Room::kYes);
  EXPECT_TRUE(scheduler_.idle());
  scheduler_.Enter(&job, 5);
  EXPECT_EQ(gauges().charged_bytes, 500u);
  EXPECT_EQ(gauges().queue_payloads, 1u);
  scheduler_.Pump(9, outbox_);
  Flight* flight = OnlySubmit();
  EXPECT_EQ(job.queue_ns, 4u);
  EXPECT_EQ(gauges().queue_payloads, 0u);
  EXPECT_EQ(gauges().in_flight, 1u);
  EXPECT_EQ(gauges().charged_bytes, 500u);
  Land(flight, true, 20);
  EXPECT_EQ(gauges().charged_bytes, 0u);
  EXPECT_EQ(gauges().in_flight, 0u);
  EXPECT_TRUE(scheduler_.idle());
  EXPECT_TRUE(outbox_.finished.empty()) << "who delivers the flight finishes whole jobs";
}

TEST_F(SchedulerTest, RoomAndRefusals) {
  TestJob large(10001), first(9500), second(400);
  EXPECT_EQ(scheduler_.RoomFor(large), Room::kTooLarge);
  scheduler_.Enter(&first, 0);
  EXPECT_EQ(scheduler_.RoomFor(second), Room::kNotNow);
  const absl::Status full = scheduler_.Refuse(second, Room::kNotNow).ToStatus();
  EXPECT_EQ(GetErrorDetail(full).reason, "QUEUE_FULL");
  EXPECT_EQ(GetErrorDetail(full).retry_after_ms, 1u);
  scheduler_.Wait(&second, 0);
  TestJob empty(0);
  EXPECT_EQ(scheduler_.RoomFor(empty), Room::kNotNow) << "it would overtake the one that waits";
  EXPECT_EQ(gauges().waiting, 1u);
  EXPECT_EQ(gauges().charged_bytes, 9600u) << "what waits is not charged";
  scheduler_.Drain();
  EXPECT_EQ(scheduler_.RoomFor(empty), Room::kDraining);
}

TEST_F(SchedulerTest, WhatWaitsEntersWhenTheChargeIsGivenBack) {
  TestJob first(9500), second(400);
  gpu_.Lose();
  other_.Lose();
  scheduler_.Enter(&first, 0);
  scheduler_.Wait(&second, 0);
  // With no backend left both fail, one after the other.
  scheduler_.Pump(0, outbox_);
  ASSERT_EQ(outbox_.finished.size(), 2u);
  EXPECT_EQ(outbox_.finished[0].job, &first);
  EXPECT_EQ(outbox_.finished[1].job, &second);
  EXPECT_EQ(outbox_.finished[1].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(scheduler_.idle());
  EXPECT_EQ(gauges().charged_bytes, 0u);
}

TEST_F(SchedulerTest, WhatFailsGoesElsewhereInPiecesThatFit) {
  TestJob job(2000);
  gpu_.set_estimate([](const Workload&) { return 1; });
  other_.set_estimate([](const Workload&) { return 1000; });
  scheduler_.Enter(&job, 0);
  scheduler_.Pump(0, outbox_);
  Flight* flight = OnlySubmit();
  EXPECT_EQ(flight->backend, 0);
  Land(flight, false, 1);
  EXPECT_FALSE(recovery_.empty());
  uint64_t offset = 0;
  for (const uint64_t bytes : {800, 800, 400}) {
    recovery_.Pump(1, outbox_);
    flight = OnlySubmit();
    ASSERT_NE(flight, nullptr);
    EXPECT_EQ(flight->backend, 1) << "not to the one that failed it";
    ASSERT_EQ(flight->pieces.size(), 1u);
    EXPECT_EQ(flight->pieces[0].offset, offset);
    EXPECT_EQ(flight->bytes, bytes);
    offset += bytes;
    EXPECT_TRUE(outbox_.finished.empty());
    Land(flight, true, 2);
  }
  EXPECT_TRUE(recovery_.empty());
  ASSERT_EQ(outbox_.finished.size(), 1u);
  EXPECT_TRUE(outbox_.finished[0].status.ok());
  EXPECT_EQ(outbox_.fell_back.size(), 3u);
  EXPECT_TRUE(scheduler_.idle());
}

TEST_F(SchedulerTest, WithNobodyLeftToRetryOnTheJobFails) {
  TestJob job(700);
  scheduler_.Enter(&job, 0);
  scheduler_.Pump(0, outbox_);
  for (int i = 0; i < 2; ++i) {
    Land(OnlySubmit(), false, 1);
    recovery_.Pump(1, outbox_);
  }
  EXPECT_TRUE(outbox_.submits.empty());
  ASSERT_EQ(outbox_.finished.size(), 1u);
  EXPECT_EQ(GetErrorDetail(outbox_.finished[0].status).reason, "BATCH_FAILED");
  EXPECT_TRUE(recovery_.empty());
  EXPECT_TRUE(scheduler_.idle());
}

TEST_F(SchedulerTest, TheWatchdogQuarantinesWhatExecutesForTooLong) {
  TestJob job(700);
  scheduler_.Enter(&job, 0);
  scheduler_.Pump(0, outbox_);
  Flight* flight = OnlySubmit();
  EXPECT_EQ(recovery_.WatchdogAt(), kNever) << "it has not started";
  recovery_.Quarantine(5000, outbox_);
  EXPECT_FALSE(flight->quarantined);
  flight->started_at = 100;
  EXPECT_EQ(recovery_.WatchdogAt(), 1101);
  recovery_.Quarantine(1100, outbox_);
  EXPECT_FALSE(flight->quarantined);
  recovery_.Forgive(50);
  EXPECT_EQ(recovery_.WatchdogAt(), 1151);
  recovery_.Quarantine(1151, outbox_);
  EXPECT_TRUE(flight->quarantined);
  EXPECT_FALSE(credits_.usable(flight->backend));
  EXPECT_EQ(recovery_.WatchdogAt(), kNever);

  // The piece has left the lane that hangs, whose flight shares the payload.
  EXPECT_TRUE(flight->pieces.empty());
  EXPECT_EQ(flight->owners.size(), 1u);
  recovery_.Pump(1151, outbox_);
  Flight* again = OnlySubmit();
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again->backend, flight->backend);
  Land(again, true, 1200);
  credits_.Return(flight);
  credits_.Recycle(flight);
  EXPECT_TRUE(scheduler_.idle());
}

}  // namespace
}  // namespace histogram::server
