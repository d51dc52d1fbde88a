// How much longer a backend's batches take, of late, than its costs predict: those are measured on
// an idle host, and a busy one keeps lanes waiting for a core, for memory or for the link.
//
// Plain state with the time as an argument. Not thread-safe.
#ifndef HISTOGRAM_SERVER_BATCHING_SLOWDOWN_H_
#define HISTOGRAM_SERVER_BATCHING_SLOWDOWN_H_

#include <cstdint>

#include "server/base/clock.h"

namespace histogram::server {

class Slowdown {
 public:
  // A batch that was predicted to take one time took another, from its forming to its return.
  void Observe(TimeNs now, uint64_t predicted_ns, uint64_t took_ns);

  // 1: as predicted. What was observed is forgotten by half every kHalfLifeNs, so that a backend
  // that is no longer chosen is tried again.
  double Factor(TimeNs now) const;

  static constexpr TimeNs kHalfLifeNs = 50'000'000;
  static constexpr double kFactorMin = 0.5, kFactorMax = 16;
  // Added to both times: what a batch of a few payloads takes says little of larger ones.
  static constexpr double kAllowanceNs = 20'000;
  static constexpr double kWeight = 1.0 / 8;  // of a new observation

 private:
  double factor_ = 1;  // as of seen_at_
  TimeNs seen_at_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_SLOWDOWN_H_
