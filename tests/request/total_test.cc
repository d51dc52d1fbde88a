// What an Accumulate adds up.
#include "server/request/total.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/payload.h"
#include "server/request/phased_count.h"

namespace histogram::server {
namespace {

struct CountedChunk final : Job {
  CountedChunk(const Query& query, const std::vector<float>& samples)
      : fragment(FragmentOf(std::as_bytes(std::span(samples)))) {
    fragments = {&fragment, 1};
    bytes = fragment.size();
    plan = query.plan->Now();
    counters.resize(plan.counter_count());
    CountPayload(plan, fragments, counters);
  }
  void Done(const absl::Status& /*status*/) override {}

  const Fragment fragment;
};

Query Floats(bool statistics) {
  Query query;
  query.Set(*Binning::Even(10'000, 0.0, 10.0), SampleType::kF32);
  query.statistics = statistics;
  return query;
}

// A copy of them would be in no book.
TEST(TakeTalliesTest, MovesCounters) {
  const std::vector<float> samples = {1, 2, 3, 11};
  for (const bool statistics : {false, true}) {
    const Query query = Floats(statistics);
    CountedChunk chunk(query, samples);
    const uint64_t* const counters = chunk.counters.data();
    const std::vector<Tally> tallies = TakeTallies(query, chunk);
    ASSERT_EQ(tallies.size(), 1U);
    EXPECT_EQ(tallies[0].counters().data(), counters);
    EXPECT_EQ(tallies[0].samples(), 4U);
  }
}

TEST(TotalTest, ChunksAndTheirStatisticsAddUp) {
  const Query query = Floats(/*statistics=*/true);
  Total total;
  Answer answer;
  ASSERT_TRUE(total.Finish(query, answer).ok());
  EXPECT_EQ(answer.histogram.samples, 0U);
  for (const std::vector<float>& samples : {std::vector<float>{1, 2, 3}, {5, 11, -1}}) {
    CountedChunk chunk(query, samples);
    const std::vector<Tally> tallies = TakeTallies(query, chunk);
    total.Add(query, chunk, tallies);
  }
  ASSERT_TRUE(total.Finish(query, answer).ok());
  EXPECT_EQ(answer.histogram.samples, 6U);
  EXPECT_EQ(answer.histogram.below, 1U);
  EXPECT_EQ(answer.histogram.above, 1U);
  EXPECT_EQ(answer.statistics->minimum, 1);
  EXPECT_EQ(answer.statistics->maximum, 5);
  EXPECT_NEAR(*answer.statistics->mean, 2.75, 1e-9);
}

}  // namespace
}  // namespace histogram::server
