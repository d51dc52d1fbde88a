// Chooses the kind of backend, CPU or GPU, for payloads of a size, if a server has both.
//
// Costs measured at start predict the time of a lone payload on an idle host. They do not predict
// the throughput of a busy server: receiving, replying and waking threads cost more than counting.
// So the server tries. Now and then the payloads of one size class go to the other kind for some
// milliseconds (a trial). The work done in that time is compared with the work done just before and
// just after. A closed loop of clients gets more answers in that time from the better kind, whether
// one connection waits for each answer or many fill all cores. If the clients set the pace, both
// kinds do the same work; then the estimate decides.
//
// - A trial lasts 10 ms, or longer if answers are few. Trials in favour of the current kind come
//   less and less often, until they take a 64th of the time. A trial ends early if the other kind
//   does far less work.
// - A trial in favour of the other kind is repeated at once. The evidence of trials adds up (a
//   sequential test: log-likelihood ratios, weighted by the natural variance of the rate). A single
//   trial never suffices to switch. After a switch there is no trial for 250 ms.
// - To leave the kind of the estimate, the other must be clearly better. To return to it, about as
//   good suffices.
// - A pause of the traffic ends a trial without an outcome.
// - One size class is on trial at a time. A class with little traffic follows the estimate.
//
// Plain state; time is an argument. Not thread-safe.
#ifndef HISTOGRAM_SERVER_BATCHING_PREFERENCE_H_
#define HISTOGRAM_SERVER_BATCHING_PREFERENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "server/base/clock.h"

namespace histogram::server {

class Preference {
 public:
  // Size classes: up to 1 KiB, 4 KiB, 16 KiB ... 16 MiB, and larger; first of bytes, then of typed
  // samples.
  static constexpr size_t kSizes = 9, kClasses = 2 * kSizes;
  static size_t ClassOf(uint64_t payload_bytes, bool typed = false);
  static bool IsTyped(size_t size_class) { return size_class >= kSizes; }
  // The largest payload of a class; UINT64_MAX for the class of the largest payloads.
  static uint64_t BytesMax(size_t size_class);

  // `estimated`: the kind that the measured costs favour, for each class.
  explicit Preference(const std::array<BackendKind, kClasses>& estimated);

  // The kind that a payload of this class goes to now. REQUIRES: both kinds can be used.
  BackendKind Choose(size_t size_class, TimeNs now);
  // Either kind has counted `bytes` of a payload of this class: all of it or a part.
  void Counted(size_t size_class, uint64_t bytes, TimeNs now) {
    Counted(size_class, bytes, 1, now, now);
  }
  // The same of several payloads, `bytes` together, counted at an even pace since `since`.
  void Counted(size_t size_class, uint64_t bytes, uint64_t payloads, TimeNs since, TimeNs now);
  // The kind of the present phase. Unlike Choose, it ends no window.
  BackendKind kind(size_t size_class) const { return KindOf(classes_[size_class]); }

  struct View {
    BackendKind kind = BackendKind::kCpu;  // the current kind, whatever trial is under way
    bool tried = false;                    // trials chose it, rather than the estimate
    uint64_t switches = 0;
  };
  View view(size_t size_class) const;

  // Tried together, on simulated loads with the costs of an H200 host; ADR 16 has the outcome. None
  // was measured apart.
  static constexpr TimeNs kWindowNs = 8'000'000;       // the least time of a measured window ...
  static constexpr uint32_t kWindowAnswers = 100;      // ... and its least number of answers
  static constexpr TimeNs kWindowNsMax = 100'000'000;  // a longer window has too little traffic
  static constexpr TimeNs kLeadInNs = 2'000'000;       // not measured, after a change of kind
  static constexpr TimeNs kIntervalNsMin = 20'000'000;
  static constexpr TimeNs kIntervalNsMax = 640'000'000;
  static constexpr TimeNs kTrialsShare = 64;           // long trials take 1 / this of the time
  static constexpr TimeNs kHoldNs = 250'000'000;       // without a trial after a switch
  static constexpr TimeNs kForgetNs = 60'000'000'000;  // without a full window: the estimate
  static constexpr double kGainToLeave = 0.04;         // of the rate, in logarithms
  static constexpr double kLossToReturn = 0.02;        // of the rate, in logarithms
  static constexpr double kVarianceAtFirst = 0.06 * 0.06;
  static constexpr double kHopeless = 0.7;  // a trial with less than this share of work ends early

 private:
  enum class Phase : uint8_t {
    kSteady,  // measures the current kind, window after window
    kTrial,   // measures the other one
    kAfter,   // measures the current kind once more
  };
  struct SizeClass {
    BackendKind estimated = BackendKind::kCpu, current = BackendKind::kCpu;
    Phase phase = Phase::kSteady;
    TimeNs measured_from = 0;  // the start of the window
    double work = 0;           // in the window
    double answers = 0;        // in the window
    uint32_t steady_windows = 0;
    double before = 0, trial = 0;        // work per nanosecond
    double answers_before = 0;           // answers per nanosecond
    double variance = kVarianceAtFirst;  // of the logarithm of the ratio of two windows' rates
    double evidence = 0;                 // for the other kind
    TimeNs interval = kIntervalNsMin;    // to the next trial
    TimeNs interval_max = kIntervalNsMax;
    TimeNs next_trial_at = 0, full_at = 0;  // full_at: the end of the last full window
    uint64_t switches = 0;
    bool tried = false;
  };

  static BackendKind KindOf(const SizeClass& s);
  // If the window is full or void, ends it and enters the next phase.
  void Advance(SizeClass& s, TimeNs now);
  void EndWindow(SizeClass& s, double rate, double answer_rate, TimeNs now);
  void Judge(SizeClass& s, double after);
  void BeginTrial(SizeClass& s, TimeNs now);
  void EndTrial(SizeClass& s, TimeNs now);
  // Traffic comes again after a pause.
  void Resume(SizeClass& s, TimeNs now);
  static void StartWindow(SizeClass& s, Phase phase, TimeNs from);

  std::array<SizeClass, kClasses> classes_;
  const SizeClass* on_trial_ = nullptr;  // null: none
  TimeNs on_trial_until_ = 0;            // the latest end: traffic may stop during a trial
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PREFERENCE_H_
