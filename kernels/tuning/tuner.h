// Finds the cheapest of a few candidates from noisy costs, by successive halving.
//
// A state machine: it is asked what to measure and is told what that cost. It reads no clock,
// starts nothing and knows nothing of devices. Not thread-safe; the caller owns it.
//
//   Tuner tuner(candidates, options);
//   while (auto next = tuner.Next()) tuner.Report(*next, Measure(*next));   // or Fail
//   Use(tuner.best());
//
// Each round measures every candidate that is left equally often, twice as often as the round
// before, and keeps the better half; a hopeless candidate is dropped at once. The cost of a
// candidate is the lower quartile of its times: noise only adds time, so the mean is too
// pessimistic, and the minimum too optimistic.
#ifndef HISTOGRAM_KERNELS_TUNING_TUNER_H_
#define HISTOGRAM_KERNELS_TUNING_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace histogram::tuning {

struct TunerOptions {
  uint32_t first_round = 4;  // measurements of each candidate in the first round
  uint32_t last_round = 12;  // of each of the last two
  // A candidate whose cost exceeds this many times the least cost of all is dropped. After the
  // first measurement, which may be noise, the square of this factor applies.
  double hopeless_factor = 4;
  // Candidates come in order of preference: a later one must be cheaper than an earlier one by this
  // part, or noise would decide between equals, differently each time.
  double margin = 0.02;
  // Ends the search once the costs reported add up to it and every candidate had its first chance.
  uint64_t budget_ns = UINT64_MAX;
};

class Tuner {
 public:
  // `candidates` many, named by their index, in order of preference.
  explicit Tuner(size_t candidates, const TunerOptions& options = {});

  // Whom to measure next; nothing once the search is over.
  std::optional<size_t> Next();
  // What a measurement of `candidate` cost, in nanoseconds (or any other unit, the same for all).
  // REQUIRES: candidate < the number of candidates.
  void Report(size_t candidate, uint64_t cost_ns);
  // `candidate` cannot do the work: it is never asked for or chosen again.
  void Fail(size_t candidate);

  // The cheapest as far as it is known; nothing while no candidate has been measured.
  std::optional<size_t> best() const;
  // The lower quartile of what was seen of `candidate` (up to four times: the least): what it
  // usually takes, unless more than three quarters were disturbed. Nothing where it was never
  // measured.
  std::optional<uint64_t> cost_ns(size_t candidate) const;

 private:
  struct State {
    bool alive = true;
    bool failed = false;
    uint32_t measured_in_round = 0;
    std::vector<uint64_t> costs;  // ascending; none once it failed

    std::optional<uint64_t> cost_ns() const;  // their lower quartile
  };

  bool Hopeless(const State& state) const;
  size_t CountAlive() const;
  void EndRound();

  std::vector<State> states_;
  const TunerOptions options_;
  uint32_t round_length_;
  uint64_t spent_ns_ = 0;
  bool stopped_ = false;
};

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_TUNER_H_
