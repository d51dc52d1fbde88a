// The checks between the counts and the reply: promise one, exact or an error.
#include "server/request/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "kernels/payload.h"
#include "tests/kernels/reference.h"

namespace {

thread_local size_t largest_allocation = 0;

}  // namespace

void* operator new(size_t size) {
  largest_allocation = std::max(largest_allocation, size);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace histogram::server {
namespace {

Statistics None(const Histogram&) { return {}; }

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST(MakeAnswerTest, ABinAValueIsAnsweredWithTheCountsThemselves) {
  const std::vector<uint8_t> payload = Bytes("abracadabra!");
  const ValueCounts values = ReferenceCounts(payload);
  Answer answer;
  ASSERT_TRUE(MakeAnswer(Query{}, Plan(), values, payload.size(), None, answer).ok());
  EXPECT_EQ(answer.counts().data(), values.data());
  EXPECT_EQ(answer.counts().size(), values.size());
  EXPECT_EQ(answer.histogram.samples, payload.size());

  Query letters;
  letters.Set(*Binning::Alphabet('a', 26, 6), SampleType::kU8);
  ASSERT_TRUE(MakeAnswer(letters, letters.plan->Now(), values, payload.size(), None, answer).ok());
  EXPECT_EQ(answer.counts(), absl::MakeConstSpan(answer.histogram.counts));
  EXPECT_EQ(answer.histogram, ReferenceHistogram(payload, letters.binning));

  EXPECT_FALSE(MakeAnswer(Query{}, Plan(), values, payload.size() + 1, None, answer).ok());
}

TEST(MakeAnswerTest, AnAnswerIsReusedCleanly) {
  const std::vector<uint8_t> payload = Bytes("xyz");
  Query rich;
  rich.statistics = true;
  rich.edges = true;
  Answer answer;
  ASSERT_TRUE(MakeAnswer(rich, Plan(), ReferenceCounts(payload), 3, None, answer).ok());
  EXPECT_EQ(answer.edges.size(), 257U);
  ASSERT_TRUE(MakeAnswer(Query{}, Plan(), ReferenceCounts(payload), 3, None, answer).ok());
  EXPECT_FALSE(answer.statistics.has_value());
  EXPECT_TRUE(answer.edges.empty());
}

// Counts that add up but are wrong: only a recount sees it.
// A job that was counted.
class CountedJob final : public Job {
 public:
  CountedJob(absl::Span<const Fragment> payload, const ValueCounts& values) {
    fragments = payload;
    counters.assign(values.begin(), values.end());
  }
  void Done(const absl::Status& /*status*/) override {}
};

TEST(VerifierTest, FindsSwappedCounts) {
  const std::vector<uint8_t> payload = Bytes("aab");
  ValueCounts counts = ReferenceCounts(payload);
  std::swap(counts['a'], counts['b']);
  const Fragment fragment(payload);
  const CountedJob wrong({&fragment, 1}, counts), right({&fragment, 1}, ReferenceCounts(payload));
  Verifier always(1.0);
  EXPECT_EQ(always.Check(wrong).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(always.Check(right).ok());
  Verifier never(0.0);
  EXPECT_TRUE(never.Check(wrong).ok());
}

TEST(VerifierTest, FindsSwappedCountsOfTypedSamples) {
  const std::vector<float> samples = {0.5F, 1.5F, 1.75F, -1.0F, 9.0F, std::nanf("")};
  const Fragment fragment(reinterpret_cast<const uint8_t*>(samples.data()), samples.size() * 4);
  Query query;
  query.Set(*Binning::Even(2, 0.0, 2.0), SampleType::kF32);
  Verifier always(1.0);
  CountedJob job({&fragment, 1}, ValueCounts{});
  job.plan = *Plan::Make(*Binning::Even(2, 0.0, 2.0), SampleType::kF32);
  job.counters = {1, 2, 1, 1, 1};
  EXPECT_TRUE(always.Check(job).ok());
  job.counters = {2, 1, 1, 1, 1};
  EXPECT_EQ(always.Check(job).code(), absl::StatusCode::kInternal);
}

TEST(VerifierTest, PicksTheAskedForFraction) {
  const std::vector<uint8_t> payload = Bytes("aab");
  const Fragment fragment(payload);
  const CountedJob wrong({&fragment, 1}, ValueCounts{});
  for (const double fraction : {0.01, 0.25, 0.5}) {
    Verifier verifier(fraction);
    int picked = 0;
    constexpr int kPayloads = 10000;
    for (int i = 0; i < kPayloads; ++i) {
      if (!verifier.Check(wrong).ok()) ++picked;
    }
    EXPECT_NEAR(picked, fraction * kPayloads, 5) << fraction;
  }
}

// A copy of the payload would be in no book. Its slices end within samples.
TEST(StatisticsOfPayloadTest, CopiesNoPayloadOfSeveralSlices) {
  std::vector<float> samples(1 << 18);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i % 1000);
  const Fragment all(reinterpret_cast<const uint8_t*>(samples.data()), samples.size() * 4);
  const Fragment slices[] = {all.first(1001), all.subspan(1001, 70'001), all.subspan(71'002)};
  Query query;
  query.Set(*Binning::Even(10, 0.0, 1000.0), SampleType::kF32);
  Histogram histogram;
  histogram.counts.assign(10, samples.size() / 10);
  const auto statistics_of = [&](std::span<const Fragment> payload) {
    return StatisticsOfPayload(query.plan->Now(), payload, {}, histogram, false, {});
  };
  const Statistics whole = statistics_of({&all, 1});
  largest_allocation = 0;
  const Statistics sliced = statistics_of(slices);
  EXPECT_LT(largest_allocation, all.size() / 8);
  EXPECT_NEAR(*sliced.mean, *whole.mean, 1e-9);
  EXPECT_EQ(sliced.maximum, 999);
}

TEST(MakeAnswerTest, TakesCountersOfBinsApart) {
  Query query;
  query.Set(*Binning::Even(2, 0.0, 2.0), SampleType::kF32);
  query.edges = true;
  const std::vector<uint64_t> slots = {4, 3, 2, 1, 5};
  Answer answer;
  ASSERT_TRUE(MakeAnswer(query, query.plan->Now(), slots, 15, None, answer).ok());
  EXPECT_EQ(answer.counts(), absl::MakeConstSpan(slots).first(2));
  EXPECT_EQ(answer.histogram.below, 2U);
  EXPECT_EQ(answer.histogram.above, 1U);
  EXPECT_EQ(answer.histogram.nan, 5U);
  EXPECT_EQ(answer.edges, (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(GetErrorDetail(MakeAnswer(query, query.plan->Now(), slots, 14, None, answer)).reason,
            "COUNT_MISMATCH");
}

}  // namespace
}  // namespace histogram::server
