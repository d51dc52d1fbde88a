// What a flight makes of its pieces, and what it keeps.
#include "server/batching/flight.h"

#include <gtest/gtest.h>

#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

TEST(FlightTest, IsGivenUpWhenNobodyWaitsAnyMore) {
  TestJob first(1000), second(500);
  first.deadline = 70;
  second.deadline = 90;
  Flight flight;
  flight.Add({.job = &first, .offset = 100, .bytes = 300, .whole = false});
  flight.Add({.job = &second, .offset = 0, .bytes = 500, .whole = true});
  flight.Prepare();
  EXPECT_EQ(flight.batch->deadline_ns, 90);
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
