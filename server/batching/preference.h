// Which kind of backend counts the payloads of a size, where a server has both the CPU and GPUs.
//
// Costs measured at start tell what a lone payload takes on an idle host. They do not tell what a
// busy server gets done: receiving, replying and waking threads cost more than counting does. So
// the server tries. Now and then the payloads of one size class go to the other kind for some
// milliseconds (a trial), and the work done in that time is compared with the work done just before
// and just after. A closed loop of clients gets more answers in the same time from the better kind,
// whether one connection waits for each answer or many fill all cores. Where the clients set the
// pace, both kinds get the same done; then the estimate decides.
//
// - A trial lasts 10 ms, longer where answers are few. Trials that speak for the current kind come
//   less and less often, until they take a 64th of the time. A trial ends early when the other kind
//   gets far less done.
// - A trial that speaks for the other kind is repeated at once. The evidence of trials is added up
//   (a sequential test: log-likelihood ratios, weighed by how much the rate varies by itself); a
//   single trial never suffices to switch. After a switch nothing is tried for 250 ms.
// - To leave the kind of the estimate, the other must be clearly better; to return to it, about as
//   good suffices.
// - A pause of the traffic ends a trial without an outcome.
// - One size class is on trial at a time. A class with little traffic follows the estimate.
//
// Plain state with the time as an argument. Not thread-safe.
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
  // Size classes: up to 1 KiB, 4 KiB, 16 KiB ... 16 MiB, and what is larger.
  static constexpr size_t kClasses = 9;
  static size_t ClassOf(uint64_t payload_bytes);
  // The largest payload of a class; UINT64_MAX for the last one.
  static uint64_t BytesMax(size_t size_class);

  // Of each class the kind that the costs speak for.
  explicit Preference(const std::array<BackendKind, kClasses>& estimated);

  // The kind that a payload of this class goes to as of now. REQUIRES: both kinds can be used.
  BackendKind Choose(size_t size_class, TimeNs now);
  // `bytes` of a payload of this class, all of it or a part, have been counted by either kind.
  void Counted(size_t size_class, uint64_t bytes, TimeNs now);

  struct View {
    BackendKind kind = BackendKind::kCpu;  // without the trial that may be under way
    bool tried = false;                    // the choice rests on trials, else on the estimate
    uint64_t switches = 0;
  };
  View view(size_t size_class) const;

  static constexpr TimeNs kWindowNs = 8'000'000;       // what is measured of a kind at a time ...
  static constexpr uint32_t kWindowAnswers = 100;      // ... and until so many answers came
  static constexpr TimeNs kWindowNsMax = 100'000'000;  // too little traffic to tell anything
  static constexpr TimeNs kLeadInNs = 2'000'000;       // after a change of kind, not measured
  static constexpr TimeNs kIntervalNsMin = 20'000'000;
  static constexpr TimeNs kIntervalNsMax = 640'000'000;
  static constexpr TimeNs kTrialsShare = 64;           // of the time, for trials that take longer
  static constexpr TimeNs kHoldNs = 250'000'000;       // no trial after a switch
  static constexpr TimeNs kForgetNs = 60'000'000'000;  // so long without a full window
  static constexpr double kGainToLeave = 0.04;         // of the estimate, in logarithms
  static constexpr double kLossToReturn = 0.02;        // that is accepted to be back
  static constexpr double kVarianceAtFirst = 0.06 * 0.06;
  static constexpr double kHopeless = 0.7;  // of the work: the trial ends early

 private:
  enum class Phase : uint8_t {
    kSteady,  // measures the current kind, window after window
    kTrial,   // measures the other one
    kAfter,   // measures the current kind once more
  };
  struct SizeClass {
    BackendKind estimated = BackendKind::kCpu, current = BackendKind::kCpu;
    Phase phase = Phase::kSteady;
    TimeNs measured_from = 0;  // the window; what comes before that is not measured
    double work = 0;           // done in the window
    uint32_t answers = 0;      // likewise
    uint32_t steady_windows = 0;
    double before = 0, trial = 0;        // work a nanosecond
    double answers_before = 0;           // answers a nanosecond
    double variance = kVarianceAtFirst;  // of the logarithm of a ratio of two windows
    double evidence = 0;                 // for the other kind
    TimeNs interval = kIntervalNsMin;    // to the next trial
    TimeNs interval_max = kIntervalNsMax;
    TimeNs next_trial_at = 0, full_at = 0;  // full_at: the end of the last full window
    uint64_t switches = 0;
    bool tried = false;
  };

  // Ends the window if it is full, or void, and goes on to the next phase.
  void Advance(SizeClass& s, TimeNs now);
  void EndWindow(SizeClass& s, double rate, double answer_rate, TimeNs now);
  void Judge(SizeClass& s, double after);
  void BeginTrial(SizeClass& s, TimeNs now);
  void EndTrial(SizeClass& s, TimeNs now);
  // Traffic comes after a pause.
  void Resume(SizeClass& s, TimeNs now);
  ptrdiff_t IndexOf(const SizeClass& s) const { return &s - classes_.data(); }
  static void StartWindow(SizeClass& s, Phase phase, TimeNs from);

  std::array<SizeClass, kClasses> classes_;
  ptrdiff_t on_trial_ = -1;    // the class
  TimeNs on_trial_until_ = 0;  // at the latest; traffic may end in the middle of a trial
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PREFERENCE_H_
