#include "kernels/tuning/selector.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace histogram::tuning {
namespace {

KernelChoice Row(uint64_t bytes, uint32_t payloads, const std::string& kernel, uint64_t cost_ns = 0,
                 double gbps = 0) {
  return {.backend = "test",
          .payload_bytes_max = bytes,
          .payloads_max = payloads,
          .kernel = kernel,
          .cost_ns = cost_ns,
          .gigabytes_per_second = gbps};
}

const std::vector<std::string> kKernels = {"plain", "wide", "long"};

std::string Chosen(const Selector& selector, uint64_t bytes, uint32_t payloads = 1) {
  const std::optional<size_t> chosen =
      selector.Choose({.payload_bytes = bytes, .payload_count = payloads});
  return chosen.has_value() ? kKernels[*chosen] : "none";
}

TEST(SelectorTest, TightestRowFirstInAnyOrder) {
  const std::vector<KernelChoice> rows = {Row(1 << 20, UINT32_MAX, "wide"), Row(1 << 20, 8, "long"),
                                          Row(100, UINT32_MAX, "plain")};
  for (const std::vector<KernelChoice>& order :
       {rows, std::vector<KernelChoice>(rows.rbegin(), rows.rend())}) {
    const Selector selector(kKernels, order);
    EXPECT_EQ(Chosen(selector, 50), "plain");
    EXPECT_EQ(Chosen(selector, 101, 8), "long");
    EXPECT_EQ(Chosen(selector, 101, 9), "wide");
    EXPECT_EQ(Chosen(selector, (1 << 20) + 1), "none") << "beyond the table";
    EXPECT_EQ(selector.rows().front().kernel, "plain");
  }
}

TEST(SelectorTest, ForcedOverTable) {
  const Selector selector(kKernels, {Row(UINT64_MAX, UINT32_MAX, "wide")}, "plain");
  EXPECT_EQ(Chosen(selector, 1 << 20), "plain");
  EXPECT_TRUE(selector.rows().empty()) << "rows of what is not used mislead";
}

uint64_t Estimate(const CostModel& model, uint64_t batch_bytes, uint32_t payloads) {
  Workload workload;
  workload.payload_count = payloads;
  workload.batch_bytes = batch_bytes;
  return model.EstimateNs(workload);
}

TEST(CostModelTest, AssumesWhereNothingWasMeasured) {
  const CostModel model({}, {.ns_per_byte = 0.5, .ns_per_payload = 100});
  EXPECT_EQ(Estimate(model, 0, 1), 100U);
  EXPECT_EQ(Estimate(model, 1000, 1), 600U);
  EXPECT_EQ(Estimate(model, 1000, 10), 1500U);
  EXPECT_EQ(Estimate(model, uint64_t{1} << 30, 1), (uint64_t{1} << 29) + 100);
}

TEST(CostModelTest, FollowsWhatWasMeasured) {
  // 1000 bytes in 400 ns, 11000 bytes in 2400 ns: 0.2 ns a byte between and beyond.
  const std::vector<KernelChoice> rows = {Row(0, 1, "a", 400, 2.5),
                                          Row(0, 1, "b", 2400, 11000 / 2400.0)};
  const CostModel model(rows, {.ns_per_byte = 9, .ns_per_payload = 9});
  EXPECT_NEAR(static_cast<double>(Estimate(model, 1000, 1)), 400, 1);
  EXPECT_NEAR(static_cast<double>(Estimate(model, 6000, 1)), 1400, 1);
  EXPECT_NEAR(static_cast<double>(Estimate(model, 21000, 1)), 4400, 1);
  EXPECT_NEAR(static_cast<double>(Estimate(model, 2000, 2)), 800, 2);
  EXPECT_NEAR(static_cast<double>(Estimate(model, 0, 1)), 200, 1);
}

TEST(CostModelTest, GrowsEvenWhereMeasurementsDoNot) {
  const std::vector<KernelChoice> rows = {Row(0, 1, "a", 100, 1), Row(0, 1, "b", 90, 3),
                                          Row(0, 1, "c", 200, 4), Row(0, 1, "d", 0, 0)};
  const CostModel model(rows, {.ns_per_byte = 9, .ns_per_payload = 9});
  uint64_t previous = 0;
  for (uint64_t bytes = 0; bytes < 5000; bytes += 50) {
    const uint64_t ns = Estimate(model, bytes, 1);
    EXPECT_GE(ns, previous);
    previous = ns;
  }
}

TEST(CostModelTest, NeverOverflows) {
  const CostModel model({}, {.ns_per_byte = 1e6, .ns_per_payload = 1});
  EXPECT_GT(Estimate(model, UINT64_MAX, 1), uint64_t{1} << 60);
  EXPECT_GE(Estimate(model, 0, 0), 1U);
}

}  // namespace
}  // namespace histogram::tuning
