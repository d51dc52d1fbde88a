#include "server/request/late_plan.h"

#include <algorithm>

namespace histogram::server {

const Plan& LatePlan::Get() {
  std::call_once(once_, [this] {
    plan_ = *Plan::Make(binning_, type_);  // fails only for binnings without edges
    made_.store(&*plan_, std::memory_order_release);
  });
  return *plan_;
}

uint64_t LatePlan::bytes() const {
  constexpr uint64_t kCells = 65538, kPatterns = 65536;  // of 4 bytes, at most
  const uint64_t sample_bytes = SampleBytes(type_);
  const uint64_t threshold = std::max<uint64_t>(sample_bytes, sizeof(uint32_t));
  return binning_.bin_count() * threshold +
         (kCells + (sample_bytes <= 2 ? kPatterns : 0)) * sizeof(uint32_t);
}

}  // namespace histogram::server
