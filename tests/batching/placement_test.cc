// The sizes from which on payloads go elsewhere, from invented costs.
#include "server/batching/placement.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/batching/puppet_backend.h"

namespace histogram::server {
namespace {

class PlacementTest : public ::testing::Test {
 protected:
  // Straight lines: nanoseconds a batch and nanoseconds a KiB, of time and of processor time.
  PuppetBackend& Add(const std::string& name, uint64_t ns, uint64_t ns_per_kib, uint64_t cpu_ns,
                     uint64_t cpu_ns_per_kib) {
    backends_.push_back(std::make_unique<PuppetBackend>(
        PuppetOptions{.name = name, .lanes = 4, .executes_inline = name == "cpu"}));
    PuppetBackend& backend = *backends_.back();
    backend.set_estimate([=](const Workload& workload) {
      EXPECT_EQ(workload.payload_count, 1U);
      EXPECT_EQ(workload.payload_bytes, workload.batch_bytes);
      return ns + workload.batch_bytes * ns_per_kib / 1024;
    });
    backend.set_cpu_estimate([=](const Workload& workload) {
      return cpu_ns + workload.batch_bytes * cpu_ns_per_kib / 1024;
    });
    return backend;
  }

  // "cpu 0, cuda:0 131072"
  std::string Placed(const BatchingLimits& limits) {
    std::vector<Backend*> pointers;
    for (const auto& backend : backends_) pointers.push_back(backend.get());
    placements_ = PlaceLonePayloads(pointers, limits);
    return absl::StrJoin(placements_, ", ", [](std::string* out, const Placement& placement) {
      absl::StrAppend(out, placement.backend);
    });
  }

  std::vector<std::unique_ptr<PuppetBackend>> backends_;
  std::vector<Placement> placements_;
};

TEST_F(PlacementTest, NoneWithoutABackend) {
  EXPECT_EQ(Placed({}), "");
  Add("cpu", 0, 128, 0, 128).Lose();
  EXPECT_EQ(Placed({}), "");
}

TEST_F(PlacementTest, ABackendByItselfTakesEverySize) {
  Add("cpu", 0, 128, 0, 128);
  EXPECT_EQ(Placed({}), "cpu");
  EXPECT_EQ(placements_[0].payload_bytes_min, 0U);
}

// 12 us and 28 ns a KiB against 128 ns a KiB: equal at 120 KiB.
TEST_F(PlacementTest, TheCrossoverIsWhereTheLinesMeet) {
  Add("cuda:0", 12000, 28, 10000, 100);
  Add("cpu", 0, 128, 0, 128);
  ASSERT_EQ(Placed({}), "cpu, cuda:0");
  EXPECT_GT(placements_[1].payload_bytes_min, 118U << 10);
  EXPECT_LT(placements_[1].payload_bytes_min, 123U << 10);
}

// The same costs: 10 us and 100 ns a KiB of the host against 128 ns a KiB, equal at 357 KiB.
TEST_F(PlacementTest, TheObjectiveMovesIt) {
  Add("cuda:0", 12000, 28, 10000, 100);
  Add("cpu", 0, 128, 0, 128);
  BatchingLimits limits;
  limits.objective = Objective::kCpu;
  ASSERT_EQ(Placed(limits), "cpu, cuda:0");
  EXPECT_GT(placements_[1].payload_bytes_min, 350U << 10);
  EXPECT_LT(placements_[1].payload_bytes_min, 365U << 10);
}

TEST_F(PlacementTest, AGpuThatSparesNothingGetsNothing) {
  Add("cuda:0", 12000, 28, 10000, 130);
  Add("cpu", 0, 128, 0, 128);
  BatchingLimits limits;
  limits.objective = Objective::kCpu;
  EXPECT_EQ(Placed(limits), "cpu");
}

TEST_F(PlacementTest, ALostGpuIsReplaced) {
  PuppetBackend& first = Add("cuda:0", 12000, 28, 10000, 100);
  PuppetBackend& second = Add("cuda:1", 12100, 28, 10000, 100);
  Add("cpu", 0, 128, 0, 128);
  EXPECT_EQ(Placed({}), "cpu, cuda:0");
  first.Lose();
  EXPECT_EQ(Placed({}), "cpu, cuda:1");
  second.Lose();
  EXPECT_EQ(Placed({}), "cpu");
}

// Behind batch_bytes_max payloads are cut, and their pieces are all alike.
TEST_F(PlacementTest, NothingChangesBeyondABatch) {
  Add("cuda:0", 2000000, 28, 0, 0);
  Add("cpu", 0, 128, 0, 128);
  BatchingLimits limits;
  limits.batch_bytes_max = 16 << 20;
  EXPECT_EQ(Placed(limits), "cpu");
  limits.batch_bytes_max = 32 << 20;
  ASSERT_EQ(Placed(limits), "cpu, cuda:0");
  EXPECT_GT(placements_[1].payload_bytes_min, uint64_t{19} << 20);
  EXPECT_LT(placements_[1].payload_bytes_min, uint64_t{20} << 20);
}

// A delay or a deadline says when a batch goes, not where to.
TEST_F(PlacementTest, ADelayChangesNothing) {
  Add("cuda:0", 12000, 28, 10000, 100);
  Add("cpu", 0, 128, 0, 128);
  ASSERT_EQ(Placed({}), "cpu, cuda:0");
  const uint64_t at_once = placements_[1].payload_bytes_min;
  BatchingLimits delayed;
  delayed.batch_delay_us_max = 1000;
  ASSERT_EQ(Placed(delayed), "cpu, cuda:0");
  EXPECT_EQ(placements_[1].payload_bytes_min, at_once);
}

TEST_F(PlacementTest, EveryBoundaryIsShown) {
  Add("small", 0, 1000, 0, 0);
  Add("middle", 10000, 100, 0, 0);
  Add("large", 100000, 10, 0, 0);
  ASSERT_EQ(Placed({}), "small, middle, large");
  EXPECT_LT(placements_[0].payload_bytes_min, placements_[1].payload_bytes_min);
  EXPECT_LT(placements_[1].payload_bytes_min, placements_[2].payload_bytes_min);
}

}  // namespace
}  // namespace histogram::server
