#include <histogram/binning.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram {
namespace {

using ::histogram::testing::Distribution;
using ::histogram::testing::kDistributions;
using ::histogram::testing::MakePayload;
using ::histogram::testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The definition, as plainly as it can be written: the only i with edge_i <= v < edge_i+1, the last
// bin closed.
int32_t BinByDefinition(const std::vector<double>& edges, double v) {
  if (v < edges.front()) return Binning::kBelow;
  if (v > edges.back()) return Binning::kAbove;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const bool last = i + 2 == edges.size();
    if (v >= edges[i] && (v < edges[i + 1] || (last && v <= edges[i + 1]))) {
      return static_cast<int32_t>(i);
    }
  }
  return Binning::kIgnored;
}

void ExpectError(const Result<Binning>& binning, const std::string& field, const std::string& part,
                 uint64_t limit = 0, ErrorCode code = ErrorCode::kBadBinning) {
  ASSERT_FALSE(binning.ok()) << field;
  const Error& error = binning.error();
  EXPECT_EQ(error.code, code);
  EXPECT_EQ(error.field, field);
  EXPECT_EQ(error.limit, limit);
  EXPECT_TRUE(absl::StartsWith(error.message, field + " ")) << error.message;
  EXPECT_TRUE(absl::StrContains(error.message, part)) << error.message;
}

TEST(BinningTest, IdentityIsEvenOverTheWholeRange) {
  const Binning identity = Binning::Identity();
  ASSERT_EQ(identity.bin_count(), 256U);
  for (int v = 0; v < 256; ++v) EXPECT_EQ(identity.bin_of(static_cast<uint8_t>(v)), v);
  for (const auto& even : {Binning::Even(256, {}, {}), Binning::Even(256, 0, 256)}) {
    ASSERT_TRUE(even.ok());
    EXPECT_EQ(even->table(), identity.table());
    EXPECT_EQ(even->ComputeEdges(), identity.ComputeEdges());
  }
  std::vector<double> edges(257);
  std::iota(edges.begin(), edges.end(), 0.0);
  EXPECT_EQ(identity.ComputeEdges(), edges);
}

TEST(BinningTest, AgreesWithTheDefinition) {
  Random random(11);
  for (int round = 0; round < 1000; ++round) {
    std::set<double> drawn;
    const size_t count = 2 + random.Below(uint64_t{1} << random.Below(10));
    while (drawn.size() < count) {
      drawn.insert(random.Below(2) == 0 ? static_cast<double>(random.Below(300)) - 20
                                        : random.Unit() * 300 - 20);
    }
    const std::vector<double> edges(drawn.begin(), drawn.end());
    const auto bins = static_cast<uint32_t>(count - 1);
    const Binning uneven = *Binning::Edges(edges);
    ASSERT_EQ(uneven.ComputeEdges(), edges);
    // Even ones over the same range, over one far too wide, and over one around a single value.
    for (const Binning& binning :
         {uneven, *Binning::Even(bins, edges.front(), edges.back()),
          *Binning::Even(bins, -1e12 * random.Unit(), 1e12 * random.Unit()),
          *Binning::Even(3, std::floor(edges.back()) - 1e-9, std::floor(edges.back()))}) {
      const std::vector<double> its = binning.ComputeEdges();
      ASSERT_EQ(its.size(), binning.bin_count() + size_t{1});
      ASSERT_TRUE(binning.has_edges());
      for (int v = 0; v < 256; ++v) {
        ASSERT_EQ(binning.bin_of(static_cast<uint8_t>(v)), BinByDefinition(its, v))
            << binning.bin_count() << " bins over [" << its.front() << ", " << its.back()
            << "], value " << v;
      }
    }
  }
}

// numpy.linspace in floats, and in doubles that are rounded to floats.
TEST(BinningTest, NarrowEdgesAreRoundedAsNumpyRounds) {
  Random random(7);
  size_t computed = 0;
  for (int round = 0; round < 4000; ++round) {
    const double scale = std::exp2(static_cast<double>(random.Next() % 60) - 30);
    const double lower = (random.Unit() * 2 - 1) * scale, upper = lower + random.Unit() * scale;
    const auto bins = static_cast<uint32_t>(1 + random.Next() % 3000);
    const bool in_float = round % 2 == 0;
    const EvenTypes types{in_float ? SampleType::kF32 : SampleType::kF64, SampleType::kF32};
    const auto first = static_cast<float>(lower), last = static_cast<float>(upper);
    const float step = (last - first) / static_cast<float>(bins);
    std::vector<double> expected;
    for (uint32_t i = 0; i < bins; ++i) {
      const double exact = i * ((upper - lower) / bins) + lower;
      expected.push_back(in_float ? static_cast<float>(i) * step + first
                                  : static_cast<float>(exact));
    }
    expected.push_back(last);
    const Result<Binning> binning = Binning::EvenIn(types, bins, lower, upper);
    ASSERT_EQ(binning.ok(), Binning::Edges(expected).ok());
    if (!binning.ok()) continue;
    ASSERT_EQ(binning->ComputeEdges(), expected) << bins << " over " << lower << ", " << upper;
    const internal::EdgeRule& rule = binning->edge_rule();
    if (rule.slack == 0) continue;
    ++computed;
    const double even = (expected.back() - expected.front()) / bins;
    for (uint32_t i = 0; i <= bins; ++i) {
      ASSERT_EQ(binning->edge(i), expected[i]);
      ASSERT_LE(std::abs(expected[i] - (i * even + expected.front())), rule.slack);
    }
  }
  EXPECT_GT(computed, 1000U);
}

TEST(BinningTest, NarrowEdgesOfHalves) {
  const EvenTypes halves{SampleType::kF16, SampleType::kF16};
  // numpy.linspace(numpy.float16(0.1), numpy.float16(0.7), 4)
  EXPECT_EQ(Binning::EvenIn(halves, 3, 0.1, 0.7)->ComputeEdges(),
            (std::vector<double>{0.0999755859375, 0.300048828125, 0.5, 0.7001953125}));
  EXPECT_EQ(Binning::EvenIn(halves, 2, -60000, 60000).error().field, "even.bin_count");
  EXPECT_EQ(Binning::EvenIn(halves, 5000, 1, 2).error().field, "even.bin_count");
  EXPECT_FALSE(Binning::EvenIn({SampleType::kF64, SampleType::kF16}, 1, -1e38, 0).ok());
  EXPECT_EQ(Binning::EvenIn(halves, 0, 1, 2).error().field, "even.bin_count");
}

TEST(BinningTest, EvenTakesTheMostBins) {
  for (const auto& even : {Binning::Even(65536, {}, {}), Binning::Even(65536, -1.5, 255.25),
                           Binning::Even(kBinCountMax, 0.1, 255.25)}) {
    ASSERT_TRUE(even.ok()) << even.error().message;
    const std::vector<double> edges = even->ComputeEdges();
    const int step = edges.size() > 65537 ? 51 : 1;  // the definition looks at each edge
    for (int v = 0; v < 256; v += step) {
      ASSERT_EQ(even->bin_of(static_cast<uint8_t>(v)), BinByDefinition(edges, v)) << v;
    }
  }
}

TEST(BinningTest, EvenErrors) {
  ExpectError(Binning::Even(0, {}, {}), "even.bin_count", "is 0", 1);
  ExpectError(Binning::Even(16777217, {}, {}), "even.bin_count",
              "16777217 bins; the limit is 16777216", kBinCountMax, ErrorCode::kTooManyBins);
  ExpectError(Binning::Even(101, {}, {}, 100), "even.bin_count", "101 bins; the limit is 100", 100,
              ErrorCode::kTooManyBins);
  ExpectError(Binning::Even(UINT32_MAX, {}, {}, UINT32_MAX), "even.bin_count", "16777216",
              kBinCountMax, ErrorCode::kTooManyBins);
  ExpectError(Binning::Even(4, 1.5, {}), "even.upper", "lower is 1.5");
  ExpectError(Binning::Even(4, {}, 2.5), "even.lower", "upper is 2.5");
  ExpectError(Binning::Even(4, 7, 7), "even.upper", "is 7; it must be greater than lower, 7");
  ExpectError(Binning::Even(4, 8, -7), "even.upper", "is -7; it must be greater than lower, 8");
  ExpectError(Binning::EvenIn({.edges = SampleType::kF32}, 4, kNan, 1), "even.lower", "nan");
  ExpectError(Binning::Even(4, -kInfinity, 1), "even.lower", "-inf");
  ExpectError(Binning::Even(4, 0, kInfinity), "even.upper", "inf");
  ExpectError(Binning::Even(4, 0, kNan), "even.upper", "nan");
  ExpectError(Binning::Even(4, -1e308, 1e308), "even.upper", "overflows");
}

// Where doubles are too coarse for that many bins no answer would be right: neighbouring edges
// would be the same number. As numpy's "Too many bins for data range".
TEST(BinningTest, EdgesThatRoundTogetherAreAnError) {
  const double next = std::nextafter(1e300, kInfinity);
  ExpectError(Binning::Even(2, 1e300, next), "even.bin_count", "too many bins for [1e+300");
  EXPECT_TRUE(Binning::Even(1, 1e300, next).ok());
  ExpectError(Binning::Even(3, 0, std::numeric_limits<double>::denorm_min()), "even.bin_count",
              "is 3: too many bins");
  ExpectError(Binning::Even(65536, 1, 1 + 1e-12), "even.bin_count", "65536: too many bins");
  EXPECT_TRUE(Binning::Even(65536, 0, 1e-300).ok());
}

// Around the border at which bins become too many: accepted exactly when all edges are apart.
TEST(BinningTest, AcceptsExactlyWhatIsStrictlyIncreasing) {
  Random random(12);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const double lower =
        (random.Unit() - 0.5) * std::ldexp(1, static_cast<int>(random.Below(80)) - 40);
    const double ulp = std::nextafter(std::fabs(lower), kInfinity) - std::fabs(lower);
    const auto bins = static_cast<uint32_t>(1 + random.Below(40));
    const double upper = lower + ulp * static_cast<double>(random.Below(uint64_t{20} * bins) + 1);
    const double step = (upper - lower) / bins;
    std::vector<double> edges;
    for (uint32_t i = 0; i < bins; ++i) edges.push_back(i * step + lower);
    edges.push_back(upper);
    const bool increasing =
        std::adjacent_find(edges.begin(), edges.end(), std::greater_equal<double>()) == edges.end();
    const auto even = Binning::Even(bins, lower, upper);
    ASSERT_EQ(even.ok(), increasing) << bins << " bins from " << lower;
    (increasing ? accepted : refused) += 1;
    if (even.ok()) {
      ASSERT_EQ(even->ComputeEdges(), edges);
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(BinningTest, EdgesErrors) {
  ExpectError(Binning::Edges({}), "edges.edges", "has 0 edges", 2);
  ExpectError(Binning::Edges({1.0}), "edges.edges", "has 1 edges", 2);
  ExpectError(Binning::Edges({1.0, 1.0}), "edges.edges[1]", "is 1");
  ExpectError(Binning::Edges({0.0, 2.0, 1.5}), "edges.edges[2]", "is 1.5; it must be greater than");
  ExpectError(Binning::Edges({0.0, kNan, 2.0}), "edges.edges[1]", "nan");
  ExpectError(Binning::Edges({-kInfinity, 2.0}), "edges.edges[0]", "-inf");
  ExpectError(Binning::Edges({-0.0, 0.0}), "edges.edges[1]", "is 0");
  std::vector<double> many(65538);
  std::iota(many.begin(), many.end(), 0.0);
  ExpectError(Binning::Edges(many, 65536), "edges.edges", "65537 bins; the limit is 65536", 65536,
              ErrorCode::kTooManyBins);
  EXPECT_TRUE(Binning::Edges(many).ok());
  many.pop_back();
  EXPECT_TRUE(Binning::Edges(many, 65536).ok());
}

TEST(BinningTest, AlphabetOfLetters) {
  const auto letters = Binning::Alphabet('a', 26, 6);
  ASSERT_TRUE(letters.ok());
  EXPECT_EQ(letters->bin_count(), 5U);
  EXPECT_FALSE(letters->has_edges());
  EXPECT_TRUE(letters->ComputeEdges().empty());
  for (int v = 0; v < 256; ++v) {
    const int32_t expected = v >= 'a' && v <= 'z' ? (v - 'a') / 6 : Binning::kIgnored;
    EXPECT_EQ(letters->bin_of(static_cast<uint8_t>(v)), expected) << v;
  }
}

TEST(BinningTest, AlphabetLimits) {
  EXPECT_EQ(Binning::Alphabet(0, 256, 1)->table(), Binning::Identity().table());
  EXPECT_EQ(Binning::Alphabet(255, 1, 1)->bin_of(255), 0);
  EXPECT_EQ(Binning::Alphabet(0, 256, UINT32_MAX)->bin_count(), 1U);
  ExpectError(Binning::Alphabet(256, 1, 1), "alphabet.first_symbol", "is 256", 255);
  ExpectError(Binning::Alphabet(0, 0, 1), "alphabet.symbol_count", "is 0", 1);
  ExpectError(Binning::Alphabet(0, 257, 1), "alphabet.symbol_count", "is 257", 256);
  ExpectError(Binning::Alphabet(200, 57, 1), "alphabet.symbol_count", "is 57", 56);
  ExpectError(Binning::Alphabet(200, UINT32_MAX, 1), "alphabet.symbol_count", "4294967295", 56);
  ExpectError(Binning::Alphabet(0, 10, 0), "alphabet.symbols_per_bin", "is 0", 1);
  ExpectError(Binning::Alphabet(0, 10, 1, 9), "alphabet.symbols_per_bin", "10 bins; the limit is 9",
              9, ErrorCode::kTooManyBins);
}

TEST(BinningTest, ByteTable) {
  std::vector<uint32_t> table(256);
  for (uint32_t v = 0; v < 256; ++v) table[v] = v % 3 == 2 ? UINT32_MAX - v : v % 3;
  table[5] = 2;  // just past the last bin
  const auto binning = Binning::ByteTable(2, table);
  ASSERT_TRUE(binning.ok());
  EXPECT_EQ(binning->bin_count(), 2U);
  EXPECT_FALSE(binning->has_edges());
  for (int v = 0; v < 256; ++v) {
    EXPECT_EQ(binning->bin_of(static_cast<uint8_t>(v)), v % 3 == 2 ? Binning::kIgnored : v % 3);
  }
  ExpectError(Binning::ByteTable(0, table), "byte_table.bin_count", "is 0", 1);
  ExpectError(Binning::ByteTable(kBinCountMax + 1, table), "byte_table.bin_count", "16777217",
              kBinCountMax, ErrorCode::kTooManyBins);
  table.pop_back();
  ExpectError(Binning::ByteTable(2, table), "byte_table.bin_of_byte", "has 255 entries", 256);
}

std::vector<Binning> SomeBinnings() {
  std::vector<uint32_t> table(256);
  Random random(14);
  for (uint32_t& bin : table) bin = static_cast<uint32_t>(random.Below(70000));
  return {Binning::Identity(),
          *Binning::Even(7, 20, 199.5),
          *Binning::Even(1, {}, {}),
          *Binning::Even(65536, {}, {}),
          *Binning::Even(10, 300, 400),
          *Binning::Edges({-3.0, 0.5, 77.0, 78.0, 255.0}),
          *Binning::Alphabet('a', 26, 6),
          *Binning::ByteTable(60000, table)};
}

TEST(FoldTest, EqualsAskingForEachSample) {
  for (const Binning& binning : SomeBinnings()) {
    for (const Distribution distribution : kDistributions) {
      for (const size_t size : {0, 1, 5000}) {
        const std::vector<uint8_t> payload = MakePayload(distribution, size, 15);
        ASSERT_EQ(Fold(ReferenceCounts(payload), binning), ReferenceHistogram(payload, binning));
      }
    }
  }
}

TEST(FoldTest, IntoReusesWhatIsThere) {
  const std::vector<uint8_t> payload = MakePayload(Distribution::kUniform, 3000);
  const ValueCounts values = ReferenceCounts(payload);
  Histogram out;
  for (int round = 0; round < 2; ++round) {
    for (const Binning& binning : SomeBinnings()) {
      FoldInto(values, binning, out);
      ASSERT_EQ(out, Fold(values, binning));
    }
  }
}

TEST(FoldTest, LargeCounts) {
  ValueCounts values{};
  values[3] = uint64_t{1} << 62;
  values[200] = uint64_t{1} << 61;
  const Histogram histogram = Fold(values, *Binning::Even(2, 0, 100));
  EXPECT_EQ(histogram.counts[0], uint64_t{1} << 62);
  EXPECT_EQ(histogram.above, uint64_t{1} << 61);
  EXPECT_EQ(histogram.samples, (uint64_t{1} << 62) + (uint64_t{1} << 61));
}

}  // namespace
}  // namespace histogram
