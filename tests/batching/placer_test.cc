// Decide as a table of cases.
#include "server/batching/placer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace histogram::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;

BatchingLimits Limits() {
  BatchingLimits limits;
  limits.batch_bytes_max = 16 * kMiB;
  limits.batch_payloads_max = 100;
  limits.split_bytes_min = 2 * kMiB;
  return limits;
}

BackendView Lane(uint32_t free, uint32_t lanes) {
  return {.free = free, .lanes = lanes, .lane_bytes = UINT64_MAX, .lane_payloads = UINT32_MAX};
}

BackendView Busy() { return Lane(0, 1); }

BackendView Down(BackendView lane) {
  lane.up = false;
  return lane;
}

// `payloads` of the same size.
QueueView Queue(uint32_t payloads, uint64_t each) {
  return {.payloads = payloads, .bytes = payloads * each, .next_bytes = each};
}

QueueView RestOf(QueueView queue) {
  queue.next_executing = true;
  return queue;
}

// What is decided: where the batch goes, why now, over how many lanes.
struct Expected {
  int backend = -1;  // -1: waits
  ClosedBy closed_by = ClosedBy::kIdle;
  uint32_t parts = 1;
};

constexpr Expected kWaits;
Expected Takes(int backend, uint32_t parts = 1) { return {.backend = backend, .parts = parts}; }
Expected ClosedFor(ClosedBy why) { return {.backend = 0, .closed_by = why}; }

struct Case {
  std::string name;
  QueueView queue;
  std::vector<BackendView> lanes;
  Expected expected;
};

std::vector<Case> Cases() {
  const QueueView small = Queue(1, 10), large = Queue(1, 8 * kMiB);
  const BackendView lane = Lane(1, 1);
  return {
      {"an empty queue waits", {}, {lane}, kWaits},
      {"no backend at all waits", small, {}, kWaits},
      {"a backend that is down is as good as none", small, {Down(lane)}, kWaits},
      {"a backend without lanes is skipped", small, {Lane(0, 0), lane}, Takes(1)},
      {"idle lane: at once", small, {lane}, Takes(0)},
      {"busy lane: waits for it", Queue(5, 10), {Busy()}, kWaits},
      {"an empty payload goes like any other", Queue(1, 0), {lane}, Takes(0)},

      // Which lane.
      {"the first", small, {lane, lane}, Takes(0)},
      {"the backend with the most", small, {Lane(1, 2), Lane(2, 2)}, Takes(1)},
      {"the first is down", small, {Down(lane), lane}, Takes(1)},
      {"never waits for a lane while another is free", small, {Busy(), lane}, Takes(1)},
      {"all busy: nothing to look again for", small, {Busy(), Busy()}, kWaits},

      // Why it closes.
      {"full by bytes", Queue(2, 8 * kMiB), {lane}, ClosedFor(ClosedBy::kBytes)},
      {"full by payloads", Queue(100, 10), {lane}, ClosedFor(ClosedBy::kPayloads)},
      {"not quite full", Queue(99, 10), {lane}, ClosedFor(ClosedBy::kIdle)},

      // Cutting over lanes.
      {"just too small to cut", Queue(1, 2 * kMiB - 1), {Lane(8, 8)}, Takes(0)},
      {"one lane stays free", large, {Lane(8, 8)}, Takes(0, 7)},
      {"only over the lanes that are free", large, {Lane(3, 8)}, Takes(0, 2)},
      {"the last free lane is taken whole", large, {Lane(1, 8)}, Takes(0)},
      {"a single lane is not kept free", large, {lane}, Takes(0)},
      {"parts are not too small", Queue(1, 2 * kMiB), {Lane(64, 64)}, Takes(0, 4)},
      {"two lanes: no cut, one stays free", large, {Lane(2, 2)}, Takes(0)},

      // The rest of a payload of which a part is executing.
      {"the rest leaves the last lane free", RestOf(large), {Lane(1, 4)}, kWaits},
      {"but not if others are queued", RestOf(Queue(2, 7 * kMiB)), {Lane(1, 4)}, Takes(0)},
      {"nor if it is the only lane", RestOf(large), {lane}, Takes(0)},
      {"nor if there are two", RestOf(large), {Lane(2, 4)}, Takes(0)},
      {"the rest over all but one", RestOf(large), {Lane(4, 4)}, Takes(0, 3)},
      {"another backend's lane is taken rather than the last one",
       RestOf(large),
       {Lane(1, 4), Lane(4, 4)},
       Takes(1, 3)},
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
    EXPECT_EQ(Decide(c.queue, {lane}, Limits()).bytes_max, c.bytes_max);
    lane.kind = BackendKind::kGpu;
    EXPECT_EQ(Decide(c.queue, {lane}, Limits()).bytes_max, Limits().batch_bytes_max);
  }
}

TEST(DecideTest, Table) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Decision decision = Decide(c.queue, c.lanes, Limits());
    EXPECT_EQ(decision.backend, c.expected.backend);
    if (c.expected.backend < 0) continue;
    EXPECT_EQ(decision.closed_by, c.expected.closed_by);
    EXPECT_EQ(decision.parts, c.expected.parts);
  }
}

TEST(DecideTest, ABatchTakesItsLanesShare) {
  BatchingLimits limits = Limits();
  limits.batch_payloads_max = 1024;
  Decision decision = Decide(Queue(800, 16 << 10), {Lane(1, 4)}, limits);
  EXPECT_EQ(decision.payloads_max, 200u);
  EXPECT_EQ(decision.fill_bytes_max, uint64_t{200} * (16 << 10));
  EXPECT_EQ(decision.bytes_max, 16 * kMiB) << "the share cuts no payload";

  decision = Decide(Queue(10, 16), {Lane(1, 4)}, limits);
  EXPECT_EQ(decision.payloads_max, 64u) << "a batch is worth its hand-over";
  EXPECT_EQ(decision.fill_bytes_max, uint64_t{256} << 10);
}

}  // namespace
}  // namespace histogram::server
