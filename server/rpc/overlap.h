// Whether the client of a stream sends on before it has its answers. Only then does it pay to hand
// a message to another thread, so that the next one is received meanwhile; one that comes alone
// would wait for that thread to wake, and for its own.
//
// What is counted in place is answered before the next message is looked at, whatever the client
// does. So now and then one is handed over to see. Not thread-safe.
#ifndef HISTOGRAM_SERVER_RPC_OVERLAP_H_
#define HISTOGRAM_SERVER_RPC_OVERLAP_H_

#include <cstddef>
#include <cstdint>

namespace histogram::server {

class Overlap {
 public:
  // For so many messages what was seen holds.
  static constexpr uint32_t kMemory = 64;
  // Of those that come alone the second is handed over, and then one in so many.
  static constexpr uint32_t kTryEvery = 16;

  // A message came while `others` of the stream were not yet answered. Returns whether to hand it
  // over.
  bool Arrived(size_t others) {
    if (others > 0) {
      remembered_ = kMemory;
    } else if (remembered_ > 0) {
      --remembered_;
    }
    return remembered_ > 0 || alone_++ % kTryEvery == 1;
  }

 private:
  uint32_t remembered_ = 0;
  uint32_t alone_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_OVERLAP_H_
