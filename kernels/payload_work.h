// Counting whose result is not one row of counters: many rows, or bins over the data's range. A
// backend runs it on the whole payload.
#ifndef HISTOGRAM_KERNELS_PAYLOAD_WORK_H_
#define HISTOGRAM_KERNELS_PAYLOAD_WORK_H_

#include <string>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

class PayloadWork {
 public:
  virtual ~PayloadWork() = default;
  // Counts the payload and keeps the outcome, an error too. One thread at a time calls it. If a
  // backend fails, another one calls it again, and it starts over.
  virtual void Run(absl::Span<const Fragment> payload) = 0;
  // What ran. REQUIRES: Run has returned.
  virtual std::string kernel() const = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_PAYLOAD_WORK_H_
