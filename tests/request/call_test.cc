// The checks between the counts and the reply: promise one, exact or an error.
#include "server/request/call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/reference.h"

namespace histogram::server {
namespace {

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST(MakeAnswerTest, FoldsAndFillsWhatThePlanAsksFor) {
  const std::vector<uint8_t> payload = Bytes("abracadabra!");
  Plan plan;
  plan.binning = *Binning::Alphabet('a', 26, 6);
  plan.statistics = true;
  plan.quantiles = {0.5};
  Answer answer;
  ASSERT_TRUE(MakeAnswer(plan, ReferenceCounts(payload), payload.size(), answer).ok());
  EXPECT_EQ(answer.histogram, ReferenceHistogram(payload, plan.binning));
  ASSERT_TRUE(answer.statistics.has_value());
  EXPECT_EQ(answer.statistics->quantiles.size(), 1U);
  EXPECT_TRUE(answer.edges.empty());
}

TEST(MakeAnswerTest, ABinAValueIsAnsweredWithTheCountsThemselves) {
  const std::vector<uint8_t> payload = Bytes("abracadabra!");
  const ValueCounts values = ReferenceCounts(payload);
  Answer answer;
  ASSERT_TRUE(MakeAnswer(Plan{}, values, payload.size(), answer).ok());
  EXPECT_EQ(answer.counts().data(), values.data());
  EXPECT_EQ(answer.counts().size(), values.size());
  EXPECT_EQ(answer.histogram.samples, payload.size());

  Plan letters;
  letters.binning = *Binning::Alphabet('a', 26, 6);
  ASSERT_TRUE(MakeAnswer(letters, values, payload.size(), answer).ok());
  EXPECT_EQ(answer.counts(), absl::MakeConstSpan(answer.histogram.counts));
  EXPECT_EQ(answer.histogram, ReferenceHistogram(payload, letters.binning));

  EXPECT_FALSE(MakeAnswer(Plan{}, values, payload.size() + 1, answer).ok());
}

TEST(MakeAnswerTest, AnAnswerIsReusedCleanly) {
  const std::vector<uint8_t> payload = Bytes("xyz");
  Plan rich;
  rich.statistics = true;
  rich.edges = true;
  Answer answer;
  ASSERT_TRUE(MakeAnswer(rich, ReferenceCounts(payload), 3, answer).ok());
  EXPECT_EQ(answer.edges.size(), 257U);
  ASSERT_TRUE(MakeAnswer(Plan{}, ReferenceCounts(payload), 3, answer).ok());
  EXPECT_FALSE(answer.statistics.has_value());
  EXPECT_TRUE(answer.edges.empty());
}

TEST(MakeAnswerTest, CountsThatDoNotAddUpAreNoAnswer) {
  const std::vector<uint8_t> payload = Bytes("count me");
  ValueCounts counts = ReferenceCounts(payload);
  counts['c'] += 1;
  Answer answer;
  const absl::Status status = MakeAnswer(Plan{}, counts, payload.size(), answer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorDetail(status).reason, "COUNT_MISMATCH");
}

// Counts that add up but are wrong: only a recount sees it.
TEST(VerifierTest, FindsSwappedCounts) {
  const std::vector<uint8_t> payload = Bytes("aab");
  ValueCounts counts = ReferenceCounts(payload);
  std::swap(counts['a'], counts['b']);
  const Fragment fragment(payload);
  Verifier always(1.0);
  EXPECT_EQ(always.Check({&fragment, 1}, counts).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(always.Check({&fragment, 1}, ReferenceCounts(payload)).ok());
  Verifier never(0.0);
  EXPECT_TRUE(never.Check({&fragment, 1}, counts).ok());
}

TEST(VerifierTest, PicksTheAskedForFraction) {
  const std::vector<uint8_t> payload = Bytes("aab");
  ValueCounts wrong{};
  const Fragment fragment(payload);
  for (const double fraction : {0.01, 0.25, 0.5}) {
    Verifier verifier(fraction);
    int picked = 0;
    constexpr int kPayloads = 10000;
    for (int i = 0; i < kPayloads; ++i) {
      if (!verifier.Check({&fragment, 1}, wrong).ok()) ++picked;
    }
    EXPECT_NEAR(picked, fraction * kPayloads, 5) << fraction;
  }
}

}  // namespace
}  // namespace histogram::server
