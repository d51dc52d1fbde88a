// Counting whose outcome is no single row of counters: many rows, or bins over the data's range. A
// backend that counts typed samples runs it, on the payload as a whole.
#ifndef HISTOGRAM_KERNELS_PAYLOAD_WORK_H_
#define HISTOGRAM_KERNELS_PAYLOAD_WORK_H_

#include <string>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

class PayloadWork {
 public:
  virtual ~PayloadWork() = default;
  // Counts the payload and keeps the outcome, errors too. Called by one thread; again, from the
  // beginning, where a backend failed.
  virtual void Run(absl::Span<const Fragment> payload) = 0;
  // What ran. REQUIRES: Run has returned.
  virtual std::string kernel() const = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_PAYLOAD_WORK_H_
