// Counting a payload as a whole, and the recount of it.
#include "server/request/whole_count.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/error.h"
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
  query->sample_type = SampleType::kF32;
  query->binning = *Binning::Even(100, 0.0, 100.0);
  query->plan = std::make_shared<LatePlan>(query->binning, query->sample_type);
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

Fragment FragmentOf(const std::vector<float>& samples) {
  return {reinterpret_cast<const uint8_t*>(samples.data()), samples.size() * sizeof(float)};
}

// The recount of what was sent is equal, and that of other samples of as many is not: it looks.
void ExpectRecounted(const std::shared_ptr<const Query>& query, bool adds_up,
                     bool makes_tables = false) {
  const std::vector<float> sent = Samples(1), other = Samples(2);
  const Fragment fragment = FragmentOf(sent), other_fragment = FragmentOf(other);
  WholeCount count(query, adds_up, makes_tables);
  count.Run({&fragment, 1});
  ASSERT_TRUE(count.status().ok()) << count.status();
  EXPECT_TRUE(count.Recount({&fragment, 1}).ok());
  EXPECT_EQ(GetErrorDetail(count.Recount({&other_fragment, 1})).reason, "COUNT_MISMATCH");
}

TEST(WholeCountTest, RowsAreRecounted) {
  for (const uint32_t channels : {1U, 3U}) {
    ExpectRecounted(Bytes(channels), false);
    ExpectRecounted(Floats(channels), false);
    ExpectRecounted(InWindows(Bytes(channels)), false);
    ExpectRecounted(InWindows(Floats(channels)), false);
  }
}

TEST(WholeCountTest, RowsOfWhichOnlyStatisticsAreSentAreRecounted) {
  ExpectRecounted(WithStatistics(Bytes(3)), false);
  ExpectRecounted(WithStatistics(InWindows(Floats(3))), false);
}

TEST(WholeCountTest, ChannelsOfAChunkAreRecounted) {
  ExpectRecounted(Bytes(3), true);
  ExpectRecounted(WithStatistics(Bytes(3)), true);
  ExpectRecounted(Floats(3), true);
  ExpectRecounted(WithStatistics(Floats(3)), true);
}

TEST(WholeCountTest, APlanThatIsMadeFirstCountsTheSame) {
  auto query = Floats(1);
  query->rows.reset();
  EXPECT_EQ(query->plan->made(), nullptr);
  ExpectRecounted(query, false, /*makes_tables=*/true);
  EXPECT_NE(query->plan->made(), nullptr);
}

}  // namespace
}  // namespace histogram::server
