#include "server/batching/preference.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace histogram::server {
namespace {

constexpr int kFirstClassBits = 10;  // 1 KiB

// What a payload takes beside its bytes, in bytes: about what small ones cost.
constexpr uint64_t kWorkPerAnswer = 4096;

// The sequential test: the logarithm of a ratio of windows is drawn from a normal distribution
// around margin + kDelta if the other kind is better, around margin - kDelta if it is not. It
// decides when the first is e^kDecided times as likely. Like preference.h's, not measured apart.
constexpr double kDelta = 0.05;
constexpr double kDecided = 5;
constexpr double kDoubt = 0.2;  // so much evidence asks for the next trial at once
constexpr double kMostOfOneTrial = kDecided / 2;
constexpr double kVarianceMin = 0.03 * 0.03;
constexpr double kVarianceMax = 0.5 * 0.5;

BackendKind Other(BackendKind kind) {
  return kind == BackendKind::kCpu ? BackendKind::kGpu : BackendKind::kCpu;
}

}  // namespace

size_t Preference::ClassOf(uint64_t payload_bytes, bool typed) {
  const size_t first = typed ? kSizes : 0;
  if (payload_bytes <= uint64_t{1} << kFirstClassBits) return first;
  const auto bits = static_cast<size_t>(std::bit_width(payload_bytes - 1));
  return first + std::min(kSizes - 1, (bits - kFirstClassBits + 1) / 2);
}

uint64_t Preference::BytesMax(size_t size_class) {
  assert(size_class < kClasses);
  const size_t size = size_class % kSizes;
  return size + 1 == kSizes ? UINT64_MAX : uint64_t{1} << (kFirstClassBits + 2 * size);
}

Preference::Preference(const std::array<BackendKind, kClasses>& estimated) {
  for (size_t c = 0; c < kClasses; ++c) classes_[c].estimated = classes_[c].current = estimated[c];
}

BackendKind Preference::Choose(size_t size_class, TimeNs now) {
  SizeClass& s = classes_[size_class];
  Advance(s, now);
  return KindOf(s);
}

BackendKind Preference::KindOf(const SizeClass& s) {
  return s.phase == Phase::kTrial ? Other(s.current) : s.current;
}

void Preference::Counted(size_t size_class, uint64_t bytes, uint64_t payloads, TimeNs since,
                         TimeNs now) {
  SizeClass& s = classes_[size_class];
  if (now >= s.measured_from) {
    const double share = since >= s.measured_from ? 1
                                                  : static_cast<double>(now - s.measured_from) /
                                                        static_cast<double>(now - since);
    s.work += share * static_cast<double>(bytes + payloads * kWorkPerAnswer);
    s.answers += share * static_cast<double>(payloads);
  }
  Advance(s, now);
}

Preference::View Preference::view(size_t size_class) const {
  const SizeClass& s = classes_[size_class];
  return {.kind = s.current, .tried = s.tried, .switches = s.switches};
}

void Preference::StartWindow(SizeClass& s, Phase phase, TimeNs from) {
  s.phase = phase;
  s.measured_from = from;
  s.work = 0;
  s.answers = 0;
}

void Preference::Advance(SizeClass& s, TimeNs now) {
  const TimeNs elapsed = now - s.measured_from;
  if (elapsed <= 0) return;
  if (elapsed > kWindowNsMax) {
    if (elapsed >= 2 * kWindowNsMax) {  // traffic had ended
      Resume(s, now);
    } else if (s.phase != Phase::kSteady) {  // too slow to try
      s.interval = s.interval_max = kTrialsShare * kWindowNsMax;
      EndTrial(s, now);
    }
    s.steady_windows = 0;
    StartWindow(s, Phase::kSteady, now);
    if (now - s.full_at > kForgetNs) s.current = s.estimated;
    return;
  }
  const auto ns = static_cast<double>(elapsed);
  if (s.phase == Phase::kTrial && s.answers_before * ns >= kWindowAnswers &&
      s.work < kHopeless * s.before * ns) {
    s.evidence = 0;
    s.tried = true;
    EndTrial(s, now);
    return;
  }
  if (elapsed < kWindowNs || s.answers < kWindowAnswers) return;
  s.full_at = now;
  EndWindow(s, s.work / ns, s.answers / ns, now);
}

void Preference::EndWindow(SizeClass& s, double rate, double answer_rate, TimeNs now) {
  switch (s.phase) {
    case Phase::kSteady:
      s.before = rate;
      s.answers_before = answer_rate;
      // The first window may have seen clients arrive.
      if (++s.steady_windows >= 2 && now >= s.next_trial_at &&
          (on_trial_ == nullptr || now >= on_trial_until_)) {
        return BeginTrial(s, now);
      }
      return StartWindow(s, Phase::kSteady, now);
    case Phase::kTrial:
      s.trial = rate;
      s.interval_max = std::max(kIntervalNsMax, kTrialsShare * (now - s.measured_from + kLeadInNs));
      return StartWindow(s, Phase::kAfter, now + kLeadInNs);
    case Phase::kAfter:
      Judge(s, rate);
      s.before = rate;
      s.answers_before = answer_rate;
      return s.evidence >= kDoubt ? BeginTrial(s, now) : EndTrial(s, now);
  }
}

void Preference::BeginTrial(SizeClass& s, TimeNs now) {
  on_trial_ = &s;
  on_trial_until_ = now + 2 * (kLeadInNs + kWindowNsMax);
  StartWindow(s, Phase::kTrial, now + kLeadInNs);
}

void Preference::EndTrial(SizeClass& s, TimeNs now) {
  if (on_trial_ == &s) on_trial_ = nullptr;
  s.next_trial_at = now + s.interval;
  s.interval = std::min(2 * s.interval, s.interval_max);
  StartWindow(s, Phase::kSteady, now + kLeadInNs);
}

void Preference::Resume(SizeClass& s, TimeNs now) {
  // The windows at the end of the traffic saw it end, and not how the rate varies.
  s.variance = std::min(s.variance, kVarianceAtFirst);
  if (s.phase == Phase::kSteady) return;
  s.next_trial_at = now;  // the trial was cut short
  if (on_trial_ == &s) on_trial_ = nullptr;
}

void Preference::Judge(SizeClass& s, double after) {
  // How much the rate of one kind varies from window to window tells how far to trust a ratio.
  const double drift = std::log(after / s.before);
  s.variance += (std::min(0.75 * drift * drift, kVarianceMax) - s.variance) / 8;
  const double gain = std::log(2 * s.trial / (s.before + after));
  const double margin = s.current == s.estimated ? kGainToLeave : -kLossToReturn;
  const double likelihood = 2 * kDelta * (gain - margin) / std::max(s.variance, kVarianceMin);
  s.evidence = std::max(0.0, s.evidence + std::min(likelihood, kMostOfOneTrial));
  s.tried = true;
  if (s.evidence < kDecided) return;
  s.current = Other(s.current);
  ++s.switches;
  s.evidence = 0;
  s.interval = kHoldNs;
}

}  // namespace histogram::server
