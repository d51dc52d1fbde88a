// Counting a payload in phases, and the recount of it.
#include "server/request/phased_count.h"

#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "server/request/answer.h"
#include "server/request/query.h"

namespace histogram::server {
namespace {

std::shared_ptr<Query> Bytes(uint32_t channels) {
  auto query = std::make_shared<Query>();
  query->rows.emplace().channels = channels;
  return query;
}

std::shared_ptr<Query> Floats(uint32_t channels) {
  auto query = Bytes(channels);
  query->Set(*Binning::Even(100, 0.0, 100.0), SampleType::kF32);
  return query;
}

std::shared_ptr<Query> WithStatistics(std::shared_ptr<Query> query) {
  query->statistics = query->omit_counts = true;
  return query;
}

std::shared_ptr<Query> InWindows(std::shared_ptr<Query> query) {
  query->rows->kind = RowCut::Kind::kWindows;
  query->rows->window = 25;
  return query;
}

std::vector<float> Samples(size_t seed) {
  std::vector<float> samples(1200);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>((i * 7919 + seed * 31) % 1100) / 10;
  }
  return samples;
}

// The recount of what was sent is equal, and that of other samples of as many is not: it looks.
void ExpectRecounted(const std::shared_ptr<const Query>& query, bool adds_up,
                     bool makes_tables = false) {
  const std::vector<float> sent = Samples(1), other = Samples(2);
  const Fragment fragment = FragmentOf(std::as_bytes(std::span(sent)));
  const Fragment other_fragment = FragmentOf(std::as_bytes(std::span(other)));
  PhasedCount count(query, adds_up, makes_tables);
  RunPhases(count, {&fragment, 1});
  ASSERT_TRUE(count.status().ok()) << count.status();
  EXPECT_TRUE(count.Recount({&fragment, 1}).ok());
  EXPECT_EQ(GetErrorDetail(count.Recount({&other_fragment, 1})).reason, "COUNT_MISMATCH");
}

TEST(PhasedCountTest, RowsAreRecounted) {
  for (const uint32_t channels : {1U, 3U}) {
    for (const auto& of : {Bytes, Floats}) {
      for (const bool statistics : {false, true}) {
        const auto query = [&] { return statistics ? WithStatistics(of(channels)) : of(channels); };
        ExpectRecounted(query(), false);
        ExpectRecounted(InWindows(query()), false);
        if (channels > 1) ExpectRecounted(query(), true);  // of a chunk
        const auto own = InWindows(query());
        own->range_of_row = true;
        ExpectRecounted(own, false);
      }
    }
  }
}

TEST(PhasedCountTest, ARowWithoutARangeEndsTheCount) {
  std::vector<float> samples = Samples(1);
  samples[77] = std::numeric_limits<float>::quiet_NaN();
  auto query = InWindows(Floats(1));
  query->range_of_row = true;
  PhasedCount count(query, false, false);
  const Fragment fragment = FragmentOf(std::as_bytes(std::span(samples)));
  RunPhases(count, {&fragment, 1});
  EXPECT_EQ(GetErrorDetail(count.status()).reason, "NOT_FINITE");
  EXPECT_NE(count.status().message().find("sample 2 of row 3"), std::string::npos)
      << count.status();
  EXPECT_EQ(count.rows().row_count(), 3);
}

TEST(PhasedCountTest, APlanThatIsMadeFirstCountsTheSame) {
  auto query = Floats(1);
  query->rows.reset();
  EXPECT_EQ(query->plan->made(), nullptr);
  ExpectRecounted(query, false, /*makes_tables=*/true);
  EXPECT_NE(query->plan->made(), nullptr);
}

// Bins over the range of integers that doubles do not hold: each sample is in one.
template <typename C>
void ExpectInItsRange(SampleType type, const std::vector<C>& samples) {
  for (const uint32_t bins : {1U, 2U, 10U, 2048U}) {
    auto query = std::make_shared<Query>();
    query->Set(*Binning::Even(bins, 0.0, 1.0), type);
    query->range_of_data = true;
    PhasedCount count(query, false, false);
    const Fragment fragment = FragmentOf(std::as_bytes(std::span(samples)));
    RunPhases(count, {&fragment, 1});
    ASSERT_TRUE(count.status().ok()) << samples[0] << ", " << bins << ": " << count.status();
    const auto counters = count.counters();
    EXPECT_EQ(std::reduce(counters.begin(), counters.begin() + bins), samples.size()) << samples[0];
    EXPECT_TRUE(count.Recount({&fragment, 1}).ok());
  }
}

TEST(PhasedCountTest, SamplesOf64BitsLieInTheirRange) {
  constexpr uint64_t kTime = 1'700'000'000'123'456'789;
  constexpr auto kSigned = static_cast<int64_t>(kTime);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr uint64_t kMostOfAll = std::numeric_limits<uint64_t>::max();
  ExpectInItsRange<uint64_t>(SampleType::kU64, {kTime, kTime + 77, kTime + 1'000'001});
  ExpectInItsRange<int64_t>(SampleType::kI64, {-kSigned, -kSigned + 77, -kSigned + 1'000'001});
  ExpectInItsRange<uint64_t>(SampleType::kU64, {0, 1, kMostOfAll});
  ExpectInItsRange<int64_t>(SampleType::kI64, {-kMost - 1, -1, kMost});
  ExpectInItsRange<uint64_t>(SampleType::kU64, {kMostOfAll - 10'000'001, kMostOfAll});
  ExpectInItsRange<int64_t>(SampleType::kI64, {kMost, kMost - 10'000'001});
  ExpectInItsRange<int64_t>(SampleType::kI64, {-kMost - 1, -kMost + 10'000'001});
}

TEST(PhasedCountTest, ConstantSamplesHaveARangeWhereDoublesAreFarApart) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t x : {kMost, kMost - 1, -kMost - 1, -kMost, int64_t{1} << 62, int64_t{1} << 53,
                          (int64_t{1} << 53) + 1}) {
    ExpectInItsRange<int64_t>(SampleType::kI64, {x, x, x});
  }
  for (const uint64_t x : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63}) {
    ExpectInItsRange<uint64_t>(SampleType::kU64, {x, x});
  }
  constexpr double kGreatest = std::numeric_limits<double>::max();
  for (const double x : {1e17, -1e300, kGreatest, -kGreatest, 0.0}) {
    ExpectInItsRange<double>(SampleType::kF64, {x, x});
  }
}

// --- What an Accumulate adds up

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

Query ChunksOf(bool statistics) {
  Query query;
  query.Set(*Binning::Even(10'000, 0.0, 10.0), SampleType::kF32);
  query.statistics = statistics;
  return query;
}

// A copy of them would be in no book.
TEST(TakeTalliesTest, MovesCounters) {
  const std::vector<float> samples = {1, 2, 3, 11};
  for (const bool statistics : {false, true}) {
    const Query query = ChunksOf(statistics);
    CountedChunk chunk(query, samples);
    const uint64_t* const counters = chunk.counters.data();
    const std::vector<Tally> tallies = TakeTallies(query, chunk);
    ASSERT_EQ(tallies.size(), 1U);
    EXPECT_EQ(tallies[0].counters().data(), counters);
    EXPECT_EQ(tallies[0].samples(), 4U);
  }
}

TEST(TotalTest, ChunksAndTheirStatisticsAddUp) {
  const Query query = ChunksOf(/*statistics=*/true);
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
