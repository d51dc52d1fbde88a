#include "server/batching/flight.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

TEST(CutFragmentsTest, EveryRangeOfUnevenFragments) {
  std::vector<uint8_t> bytes(40);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const Fragment all(bytes);
  const std::vector<Fragment> fragments = {all.subspan(0, 1),  all.subspan(1, 0),
                                           all.subspan(1, 12), all.subspan(13, 20),
                                           all.subspan(33, 0), all.subspan(33, 7)};
  for (size_t begin = 0; begin <= bytes.size(); ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      std::vector<Fragment> cut;
      CutFragments(fragments, begin, size, cut);
      std::vector<const uint8_t*> where;  // no byte is copied
      for (const Fragment& fragment : cut) {
        EXPECT_FALSE(fragment.empty());
        for (const uint8_t& byte : fragment) where.push_back(&byte);
      }
      ASSERT_EQ(where.size(), size);
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(where[i], &bytes[begin + i]);
    }
  }
}

TEST(FlightTest, PreparesWholeAndCutPieces) {
  TestJob first(1000, 1);
  TestJob second(500, 2);
  first.deadline = 70;
  second.deadline = 90;
  Flight flight;
  flight.Add({.job = &first, .offset = 100, .bytes = 300, .whole = false});
  flight.Add({.job = &second, .offset = 0, .bytes = 500, .whole = true});
  flight.Add({.job = &first, .offset = 400, .bytes = 600, .whole = false});
  EXPECT_EQ(flight.bytes, 1400u);
  EXPECT_EQ(flight.charge, second.charge_bytes);
  EXPECT_EQ(flight.whole_jobs, 1u);
  flight.Prepare();
  EXPECT_EQ(flight.batch->bytes, 1400u);
  EXPECT_EQ(flight.batch->deadline_ns, 90) << "given up only when nobody waits any more";
  ASSERT_EQ(flight.batch->items.size(), 3u);
  const std::vector<uint64_t> sizes = {300, 500, 600};
  for (size_t i = 0; i < 3; ++i) {
    uint64_t bytes = 0;
    for (const Fragment& fragment : flight.batch->items[i].fragments) bytes += fragment.size();
    EXPECT_EQ(bytes, sizes[i]);
    EXPECT_EQ(flight.batch->items[i].counts.data(), flight.rows[i].data());
  }
  EXPECT_EQ(flight.batch->items[1].fragments.data(), second.fragments.data());
  second.deadline = kNever;
  flight.Prepare();
  EXPECT_EQ(flight.batch->deadline_ns, 0);
}

// Rows of many counters would add up in the flights that wait for another batch.
TEST(FlightTest, KeepsNoMoreLargeRowsThanItNeeds) {
  const Plan plan = *Plan::Make(*Binning::Even(5000, 0.0, 1.0), SampleType::kF32);
  Flight flight;
  TestJob first(400), second(400), third(400);
  for (TestJob* const job : {&first, &second, &third}) {
    job->plan = plan;
    flight.Add({.job = job, .offset = 0, .bytes = 400, .whole = true});
  }
  flight.Prepare();
  EXPECT_EQ(flight.rows.size(), 3u);
  flight.Reset();
  flight.Add({.job = &first, .offset = 0, .bytes = 400, .whole = true});
  flight.Prepare();
  EXPECT_EQ(flight.rows.size(), 1u);
}

}  // namespace
}  // namespace histogram::server
