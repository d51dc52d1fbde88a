#include "server/batching/slowdown.h"

#include <algorithm>
#include <cmath>

namespace histogram::server {

void Slowdown::Observe(TimeNs now, uint64_t predicted_ns, uint64_t took_ns) {
  const double ratio = (static_cast<double>(took_ns) + kAllowanceNs) /
                       (static_cast<double>(predicted_ns) + kAllowanceNs);
  const double before = Factor(now);
  factor_ = before + (std::clamp(ratio, kFactorMin, kFactorMax) - before) * kWeight;
  seen_at_ = now;
}

double Slowdown::Factor(TimeNs now) const {
  if (now <= seen_at_) return factor_;
  const double half_lives = static_cast<double>(now - seen_at_) / static_cast<double>(kHalfLifeNs);
  return 1 + (factor_ - 1) * std::exp2(-half_lives);
}

}  // namespace histogram::server
