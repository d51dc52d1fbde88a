// Decide as a table of cases.
#include "server/batching/policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace histogram::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr TimeNs kNow = 1'000'000'000;
constexpr TimeNs kUs = 1000;

BatchingLimits Limits() {
  BatchingLimits limits;
  limits.batch_bytes_max = 16 * kMiB;
  limits.batch_payloads_max = 100;
  limits.split_bytes_min = 2 * kMiB;
  limits.deadline_margin_us = 200;
  return limits;
}

BatchingLimits Delayed() {
  BatchingLimits limits = Limits();
  limits.batch_delay_us_max = 500;
  return limits;
}

BackendView Lane(uint32_t free, uint32_t lanes, uint64_t cost_ns = 0) {
  return {.free = free,
          .lanes = lanes,
          .lane_bytes = UINT64_MAX,
          .lane_payloads = UINT32_MAX,
          .batch_cost_ns = cost_ns};
}

BackendView Busy(uint64_t cost_ns = 0) { return Lane(0, 1, cost_ns); }

BackendView Down(BackendView lane) {
  lane.up = false;
  return lane;
}

// `payloads` of the same size, which came just now.
QueueView Queue(uint32_t payloads, uint64_t each) {
  return {.payloads = payloads,
          .bytes = payloads * each,
          .oldest_enqueued_at = kNow,
          .next_bytes = each};
}

QueueView With(QueueView queue, TimeNs oldest_us_ago, TimeNs deadline_in_us = -1) {
  queue.oldest_enqueued_at = kNow - oldest_us_ago * kUs;
  if (deadline_in_us >= 0) queue.tightest_deadline = kNow + deadline_in_us * kUs;
  return queue;
}

QueueView RestOf(QueueView queue) {
  queue.next_executing = true;
  return queue;
}

struct Case {
  std::string name;
  QueueView queue;
  std::vector<BackendView> lanes;
  BatchingLimits limits;
  int backend = -1;  // -1: waits
  ClosedBy closed_by = ClosedBy::kIdle;
  TimeNs wake_us = -1;  // from now; -1: never
  uint32_t parts = 1;
};

std::vector<Case> Cases() {
  return {
      {"an empty queue waits", QueueView{}, {Lane(1, 1)}, Limits()},
      {"no backend at all waits", Queue(1, 10), {}, Limits()},
      {"a backend that is down is as good as none", Queue(1, 10), {Down(Lane(1, 1))}, Limits()},
      {"a backend without lanes is skipped", Queue(1, 10), {Lane(0, 0), Lane(1, 1)}, Limits(), 1},
      {"idle lane, no delay: at once", Queue(1, 10), {Lane(1, 1)}, Limits(), 0},
      {"busy lane: waits for it", Queue(5, 10), {Busy()}, Limits()},
      {"an empty payload goes like any other", Queue(1, 0), {Lane(1, 1)}, Limits(), 0},

      // Which lane.
      {"equal: the first", Queue(1, 10), {Lane(1, 1, 50), Lane(1, 1, 50)}, Limits(), 0},
      {"the cheaper", Queue(1, 10), {Lane(1, 1, 51), Lane(1, 1, 50)}, Limits(), 1},
      {"the first is down", Queue(1, 10), {Down(Lane(1, 1, 1)), Lane(1, 1, 50)}, Limits(), 1},
      {"never waits for a lane while another is free",
       Queue(1, 10),
       {Busy(1), Lane(1, 1, 5000 * kUs)},
       Limits(),
       1},
      {"all busy: nothing to look again for", Queue(1, 10), {Busy(), Busy()}, Limits()},

      // When to close, with a delay.
      {"waits for more until the delay ends",
       With(Queue(1, 10), 100),
       {Lane(1, 1)},
       Delayed(),
       -1,
       ClosedBy::kIdle,
       400},
      {"the delay is over", With(Queue(1, 10), 500), {Lane(1, 1)}, Delayed(), 0, ClosedBy::kDelay},
      {"full by bytes", Queue(2, 8 * kMiB), {Lane(1, 1)}, Delayed(), 0, ClosedBy::kBytes},
      {"full by payloads", Queue(100, 10), {Lane(1, 1)}, Delayed(), 0, ClosedBy::kPayloads},
      {"not quite full", With(Queue(99, 10), 0), {Lane(1, 1)}, Delayed(), -1, ClosedBy::kIdle, 500},
      {"the deadline comes before the delay ends",
       With(Queue(1, 10), 0, 400),
       {Lane(1, 1, 50 * kUs)},
       Delayed(),
       -1,
       ClosedBy::kIdle,
       150},
      {"now + cost + margin reaches the deadline",
       With(Queue(1, 10), 0, 250),
       {Lane(1, 1, 50 * kUs)},
       Delayed(),
       0,
       ClosedBy::kDeadline},
      {"one microsecond before that",
       With(Queue(1, 10), 0, 251),
       {Lane(1, 1, 50 * kUs)},
       Delayed(),
       -1,
       ClosedBy::kIdle,
       1},
      {"a deadline that has passed closes",
       With(Queue(1, 10), 0, 0),
       {Lane(1, 1)},
       Delayed(),
       0,
       ClosedBy::kDeadline},
      {"a lane that must be waited for is not closed for",
       With(Queue(1, 10), 500),
       {Busy()},
       Delayed()},

      // Cutting over lanes.
      {"just too small to cut", Queue(1, 2 * kMiB - 1), {Lane(8, 8)}, Limits(), 0},
      {"one lane stays free",
       Queue(1, 8 * kMiB),
       {Lane(8, 8)},
       Limits(),
       0,
       ClosedBy::kIdle,
       -1,
       7},
      {"only over the lanes that are free",
       Queue(1, 8 * kMiB),
       {Lane(3, 8)},
       Limits(),
       0,
       ClosedBy::kIdle,
       -1,
       2},
      {"the last free lane is taken whole", Queue(1, 8 * kMiB), {Lane(1, 8)}, Limits(), 0},
      {"a single lane is not kept free", Queue(1, 8 * kMiB), {Lane(1, 1)}, Limits(), 0},
      {"parts are not too small",
       Queue(1, 2 * kMiB),
       {Lane(64, 64)},
       Limits(),
       0,
       ClosedBy::kIdle,
       -1,
       4},
      {"two lanes: no cut, one stays free", Queue(1, 8 * kMiB), {Lane(2, 2)}, Limits(), 0},

      // The rest of a payload of which a part is executing.
      {"the rest leaves the last lane free", RestOf(Queue(1, 8 * kMiB)), {Lane(1, 4)}, Limits()},
      {"but not if others are queued", RestOf(Queue(2, 7 * kMiB)), {Lane(1, 4)}, Limits(), 0},
      {"nor if it is the only lane", RestOf(Queue(1, 8 * kMiB)), {Lane(1, 1)}, Limits(), 0},
      {"nor if there are two", RestOf(Queue(1, 8 * kMiB)), {Lane(2, 4)}, Limits(), 0},
      {"the rest over all but one",
       RestOf(Queue(1, 8 * kMiB)),
       {Lane(4, 4)},
       Limits(),
       0,
       ClosedBy::kIdle,
       -1,
       3},
      {"another backend's lane is taken rather than the last one",
       RestOf(Queue(1, 8 * kMiB)),
       {Lane(1, 4), Lane(4, 4)},
       Limits(),
       1,
       ClosedBy::kIdle,
       -1,
       3},
  };
}

// Of a payload that is cut, how much each lane takes.
TEST(DecideTest, ACpusLaneTakesItsShareOfAPayloadThatIsCut) {
  struct {
    const char* name;
    QueueView queue;
    uint32_t free;
    uint64_t bytes_max;
  } const cases[] = {
      {"all lanes but one are counted on", Queue(1, 14 * kMiB), 8, 2 * kMiB},
      {"also where few are free", Queue(1, 14 * kMiB), 1, 2 * kMiB},
      {"shares shrink with what is left", RestOf(Queue(1, 7 * kMiB)), 2, kMiB},
      {"but not below the smallest part", RestOf(Queue(1, kMiB)), 2, kMiB / 2},
      {"what is not cut is not shared", Queue(1, 2 * kMiB - 1), 8, Limits().batch_bytes_max},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    BackendView lane = Lane(c.free, 8);
    lane.kind = BackendKind::kCpu;
    EXPECT_EQ(Decide(kNow, c.queue, {lane}, Limits()).bytes_max, c.bytes_max);
    lane.kind = BackendKind::kGpu;
    EXPECT_EQ(Decide(kNow, c.queue, {lane}, Limits()).bytes_max, Limits().batch_bytes_max);
  }
}

TEST(DecideTest, Table) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Decision decision = Decide(kNow, c.queue, c.lanes, c.limits);
    if (c.backend < 0) {
      EXPECT_EQ(decision.action, Decision::Action::kWait);
      EXPECT_EQ(decision.backend, -1);
      EXPECT_EQ(decision.wake_at, c.wake_us < 0 ? kNever : kNow + c.wake_us * kUs);
      continue;
    }
    ASSERT_EQ(decision.action, Decision::Action::kDispatch);
    EXPECT_EQ(decision.backend, c.backend);
    EXPECT_EQ(decision.closed_by, c.closed_by);
    EXPECT_EQ(decision.parts, c.parts);
  }
}

TEST(DecideTest, ABatchHoldsWhatLaneAndLimitsAllow) {
  BackendView lane = Lane(1, 1);
  Decision decision = Decide(kNow, Queue(1, 10), {lane}, Delayed());
  ASSERT_EQ(decision.action, Decision::Action::kWait);
  decision = Decide(kNow, Queue(100, 10), {lane}, Delayed());
  EXPECT_EQ(decision.bytes_max, 16 * kMiB);
  EXPECT_EQ(decision.fill_bytes_max, 16 * kMiB);
  EXPECT_EQ(decision.payloads_max, 100u);

  lane.lane_bytes = kMiB;
  lane.lane_payloads = 7;
  decision = Decide(kNow, Queue(100, 10), {lane}, Delayed());
  EXPECT_EQ(decision.bytes_max, kMiB);
  EXPECT_EQ(decision.payloads_max, 7u);
  EXPECT_EQ(decision.closed_by, ClosedBy::kPayloads);
}

TEST(DecideTest, WithoutADelayABatchTakesItsLanesShare) {
  BatchingLimits limits = Limits();
  limits.batch_payloads_max = 1024;
  Decision decision = Decide(kNow, Queue(800, 16 << 10), {Lane(1, 4)}, limits);
  EXPECT_EQ(decision.payloads_max, 200u);
  EXPECT_EQ(decision.fill_bytes_max, uint64_t{200} * (16 << 10));
  EXPECT_EQ(decision.bytes_max, 16 * kMiB) << "the share cuts no payload";

  decision = Decide(kNow, Queue(10, 16), {Lane(1, 4)}, limits);
  EXPECT_EQ(decision.payloads_max, 64u) << "a batch is worth its hand-over";
  EXPECT_EQ(decision.fill_bytes_max, uint64_t{256} << 10);
}

TEST(DecideTest, IsPure) {
  const QueueView queue = With(Queue(3, 100), 100, 5000);
  const std::vector<BackendView> lanes = {Busy(20), Lane(2, 4, 40)};
  const Decision first = Decide(kNow, queue, lanes, Delayed());
  const Decision second = Decide(kNow, queue, lanes, Delayed());
  EXPECT_EQ(first.action, second.action);
  EXPECT_EQ(first.wake_at, second.wake_at);
}

}  // namespace
}  // namespace histogram::server
