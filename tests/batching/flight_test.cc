// Flights, and the lanes that they take.
#include "server/batching/flight.h"

#include <gtest/gtest.h>

#include "server/batching/credits.h"
#include "tests/batching/puppet_backend.h"
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
  EXPECT_EQ(flight.charge, second.charge_bytes);
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

TEST(CreditsTest, TheRateIsThatOfTheLanesThatAreLeft) {
  PuppetBackend gpu({.name = "cuda:0", .lanes = 2});
  PuppetBackend cpu({.name = "cpu", .lanes = 1, .kind = BackendKind::kCpu});
  Credits credits({&gpu, &cpu});
  Outbox outbox;
  EXPECT_DOUBLE_EQ(credits.BytesPerNs(), 3) << "three lanes, of which nothing is known";
  TestJob job(3900);  // charged 4000
  Flight* flight = credits.Take(0, ClosedBy::kIdle, 0);
  flight->Add({.job = &job, .bytes = job.bytes});
  credits.Learn(*flight, 1000);
  EXPECT_DOUBLE_EQ(credits.BytesPerNs(), 2 * 4 + 1);
  credits.MarkDown(0, kWatchdog, outbox);
  EXPECT_DOUBLE_EQ(credits.BytesPerNs(), 1);
  credits.MarkDown(1, kWatchdog, outbox);
  EXPECT_GT(credits.BytesPerNs(), 0) << "it is divided by";
}

}  // namespace
}  // namespace histogram::server
