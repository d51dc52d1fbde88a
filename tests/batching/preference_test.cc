// The choice between CPU and GPUs by what gets done: single rules, with a clock that the test
// moves.
#include "server/batching/preference.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <random>

namespace histogram::server {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr TimeNs kSecond = 1000 * kMs;
constexpr uint64_t kPayload = 64 << 10;

std::array<BackendKind, Preference::kClasses> All(BackendKind kind) {
  std::array<BackendKind, Preference::kClasses> kinds{};
  kinds.fill(kind);
  return kinds;
}

// One client after another: each payload takes what its kind takes.
class PreferenceTest : public testing::Test {
 protected:
  struct Run {
    double answers = 0, on_gpu = 0;
    TimeNs first_switch = 0;  // from the begin of the run
    double gpu_share() const { return on_gpu / answers; }
  };

  Run Serve(TimeNs cpu_ns, TimeNs gpu_ns, TimeNs for_ns) {
    Run run;
    const TimeNs begin = now_;
    const uint64_t switches = view().switches;
    while (now_ < begin + for_ns) {
      const BackendKind kind = preference_.Choose(class_, now_);
      run.on_gpu += kind == BackendKind::kGpu ? 1 : 0;
      ++run.answers;
      now_ += kind == BackendKind::kCpu ? cpu_ns : gpu_ns;
      preference_.Counted(class_, kPayload, now_);
      if (run.first_switch == 0 && view().switches > switches) run.first_switch = now_ - begin;
    }
    return run;
  }
  // Serves until a payload goes to the GPU.
  void ServeUntilTried(TimeNs gpu_ns) {
    for (int i = 0; i < 100'000; ++i) {
      if (preference_.Choose(class_, now_) == BackendKind::kGpu) return;
      Serve(40'000, gpu_ns, 40'000);
    }
    ADD_FAILURE() << "the GPU is not tried";
  }
  Preference::View view() const { return preference_.view(class_); }

  TimeNs now_ = 5 * kSecond;
  size_t class_ = Preference::ClassOf(kPayload);
  Preference preference_{All(BackendKind::kCpu)};
};

TEST(PreferenceClassTest, AClassIsAPowerOfFour) {
  EXPECT_EQ(Preference::ClassOf(0), 0U);
  EXPECT_EQ(Preference::ClassOf(1 << 10), 0U);
  EXPECT_EQ(Preference::ClassOf((1 << 10) + 1), 1U);
  for (const bool typed : {false, true}) {
    const size_t first = typed ? Preference::kSizes : 0, last = first + Preference::kSizes - 1;
    EXPECT_EQ(Preference::ClassOf(1, typed), first);
    EXPECT_EQ(Preference::ClassOf(UINT64_MAX, typed), last);
    for (size_t c = first; c < last; ++c) {
      EXPECT_EQ(Preference::IsTyped(c), typed);
      EXPECT_EQ(Preference::ClassOf(Preference::BytesMax(c), typed), c);
      EXPECT_EQ(Preference::ClassOf(Preference::BytesMax(c) + 1, typed), c + 1);
    }
    EXPECT_EQ(Preference::BytesMax(last - 1), uint64_t{16} << 20);
    EXPECT_EQ(Preference::BytesMax(last), UINT64_MAX);
  }
}

TEST_F(PreferenceTest, BeginsWithTheEstimate) {
  EXPECT_EQ(preference_.Choose(class_, now_), BackendKind::kCpu);
  EXPECT_EQ(Preference(All(BackendKind::kGpu)).Choose(class_, now_), BackendKind::kGpu);
  EXPECT_FALSE(view().tried);
}

TEST_F(PreferenceTest, ATrialThatAPauseCutsShortIsRepeatedAtOnce) {
  for (int burst = 0; burst < 8; ++burst) {
    const TimeNs begin = now_;
    ServeUntilTried(40'000);
    EXPECT_LT(now_ - begin, 50 * kMs) << "burst " << burst;
    now_ += 250 * kMs;
  }
}

TEST_F(PreferenceTest, WhatVariedBeforeAPauseIsForgotten) {
  for (int trial = 0; trial < 8; ++trial) {
    ServeUntilTried(40'000);
    Serve(40'000, 40'000, 11 * kMs);
    Serve(80'000, 80'000, 20 * kMs);  // clients end
  }
  now_ += kSecond;
  const Run run = Serve(40'000, 30'000, kSecond);
  EXPECT_EQ(view().switches, 1U);
  EXPECT_LT(run.first_switch, kSecond / 5);
}

TEST_F(PreferenceTest, FollowsWhatGetsMoreDone) {
  const Run run = Serve(40'000, 32'000, kSecond);
  EXPECT_EQ(view().kind, BackendKind::kGpu);
  EXPECT_TRUE(view().tried);
  EXPECT_EQ(view().switches, 1U);
  EXPECT_LT(run.first_switch, kSecond / 5);
}

TEST_F(PreferenceTest, OneTrialDoesNotSuffice) {
  // The GPU is ten times as fast, so that a single trial says as much as one can.
  ServeUntilTried(4'000);
  Serve(40'000, 4'000, 12 * kMs);
  EXPECT_EQ(view().switches, 0U);
  Serve(40'000, 4'000, 40 * kMs);
  EXPECT_EQ(view().switches, 1U);
}

TEST_F(PreferenceTest, ASwitchIsNotDoubtedAtOnce) {
  while (view().switches == 0) Serve(40'000, 32'000, kMs);
  EXPECT_EQ(Serve(40'000, 32'000, 240 * kMs).gpu_share(), 1);
  EXPECT_LT(Serve(40'000, 32'000, kSecond).gpu_share(), 1);
}

TEST_F(PreferenceTest, TryingTheWorseKindCostsLittle) {
  Serve(40'000, 90'000, 2 * kSecond);
  const Run run = Serve(40'000, 90'000, 10 * kSecond);
  EXPECT_GT(run.on_gpu, 0) << "it is tried";
  EXPECT_LT(run.gpu_share(), 0.01);
  EXPECT_GT(run.answers, 0.99 * 10 * kSecond / 40'000);
  EXPECT_EQ(view().switches, 0U);
}

TEST_F(PreferenceTest, ATieStaysWithTheEstimate) {
  const Run run = Serve(40'000, 40'000, 10 * kSecond);
  EXPECT_EQ(view().switches, 0U);
  EXPECT_LT(run.gpu_share(), 0.04);
}

TEST_F(PreferenceTest, ReturnsToTheEstimateWhenItIsAsGood) {
  Serve(40'000, 30'000, kSecond);
  ASSERT_EQ(view().kind, BackendKind::kGpu);
  Serve(40'000, 40'000, 2 * kSecond);
  EXPECT_EQ(view().kind, BackendKind::kCpu);
}

TEST_F(PreferenceTest, AdaptsWithinASecondAfterALongTimeOfTheSame) {
  Serve(40'000, 60'000, 20 * kSecond);
  ASSERT_EQ(view().kind, BackendKind::kCpu);
  EXPECT_GT(Serve(40'000, 30'000, kSecond).first_switch, 0);
  Serve(40'000, 30'000, 20 * kSecond);
  ASSERT_EQ(view().kind, BackendKind::kGpu);
  EXPECT_GT(Serve(40'000, 60'000, kSecond).first_switch, 0);
}

TEST_F(PreferenceTest, AWildLoadDoesNotMakeItFlap) {
  // What is served varies by a factor of four from 10 ms to 10 ms, whoever serves.
  const uint64_t before = view().switches;
  uint64_t state = 1;
  for (int i = 0; i < 1000; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const TimeNs each = 20'000 << (state >> 62);
    Serve(each, each, 10 * kMs);
  }
  EXPECT_LE(view().switches - before, 10U) << "in ten seconds";
}

TEST_F(PreferenceTest, ClientsThatSetThePaceStayWithTheEstimate) {
  // Both kinds get the same done, though at random times.
  std::mt19937_64 random(7);
  for (const double a_second : {2'000.0, 13'000.0, 80'000.0}) {
    preference_ = Preference(All(BackendKind::kCpu));
    double payloads = 0, on_gpu = 0;
    for (const TimeNs end = now_ + 20 * kSecond; now_ < end;) {
      const double chance = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
      now_ -= static_cast<TimeNs>(std::log(chance) * 1e9 / a_second);
      const BackendKind kind = preference_.Choose(class_, now_);
      on_gpu += kind == BackendKind::kGpu ? 1 : 0;
      ++payloads;
      preference_.Counted(class_, kPayload, now_ + (kind == BackendKind::kGpu ? 60'000 : 10'000));
    }
    EXPECT_LT(on_gpu / payloads, 0.2) << a_second;
    EXPECT_LE(view().switches, 4U) << a_second;
  }
}

TEST_F(PreferenceTest, LittleTrafficIsNotTriedWith) {
  const Run run = Serve(5 * kMs, 1 * kMs, 20 * kSecond);
  EXPECT_EQ(run.on_gpu, 0);
  EXPECT_FALSE(view().tried);
}

TEST_F(PreferenceTest, ATrialThatTrafficLeavesEnds) {
  ServeUntilTried(40'000);
  now_ += kSecond;
  EXPECT_EQ(preference_.Choose(class_, now_), BackendKind::kCpu);
  // Meanwhile it does not keep others from trying.
  ServeUntilTried(40'000);
  class_ = Preference::ClassOf(1 << 20);
  EXPECT_GT(Serve(40'000, 30'000, kSecond).first_switch, 0);
}

TEST_F(PreferenceTest, OneClassIsOnTrialAtATime) {
  const size_t other = Preference::ClassOf(1 << 20);
  int both = 0, any = 0;
  for (TimeNs end = now_ + 5 * kSecond; now_ < end; now_ += 20'000) {
    const bool a = preference_.Choose(class_, now_) == BackendKind::kGpu;
    const bool b = preference_.Choose(other, now_) == BackendKind::kGpu;
    both += a && b ? 1 : 0;
    any += a || b ? 1 : 0;
    preference_.Counted(class_, kPayload, now_);
    preference_.Counted(other, 1 << 20, now_);
  }
  EXPECT_GT(any, 0);
  EXPECT_EQ(both, 0);
}

TEST_F(PreferenceTest, IsForgottenAfterAMinute) {
  Serve(40'000, 30'000, kSecond);
  ASSERT_EQ(view().kind, BackendKind::kGpu);
  now_ += 30 * kSecond;
  EXPECT_EQ(preference_.Choose(class_, now_), BackendKind::kGpu);
  now_ += 61 * kSecond;
  EXPECT_EQ(preference_.Choose(class_, now_), BackendKind::kCpu);
}

TEST_F(PreferenceTest, ATimeThatGoesBackChangesNothing) {
  Serve(40'000, 30'000, kSecond);
  preference_.Counted(class_, kPayload, now_ - kSecond);
  EXPECT_EQ(preference_.Choose(class_, now_ - kSecond), BackendKind::kGpu);
}

// What threads count themselves is told every two milliseconds. The rate is the same.
TEST_F(PreferenceTest, LearnsFromWhatIsToldTogether) {
  const auto serve = [&](TimeNs gpu_ns, TimeNs for_ns) {
    for (const TimeNs end = now_ + for_ns; now_ < end;) {
      if (preference_.kind(class_) == BackendKind::kGpu) {
        preference_.Choose(class_, now_);
        now_ += gpu_ns;
        preference_.Counted(class_, kPayload, now_);
        continue;
      }
      const TimeNs since = now_;
      now_ += 2 * kMs;
      preference_.Counted(class_, 50 * kPayload, 50, since, now_);  // one in 40 us
    }
  };
  serve(42'000, 2 * kSecond);
  EXPECT_EQ(view().kind, BackendKind::kCpu) << "the GPU gets 5 % less done";
  EXPECT_EQ(view().switches, 0U);
  serve(35'000, 2 * kSecond);
  EXPECT_EQ(view().kind, BackendKind::kGpu) << "the GPU gets 14 % more done";
  EXPECT_EQ(view().switches, 1U);
}

}  // namespace
}  // namespace histogram::server
