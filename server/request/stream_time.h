// The time that the server is busy with a stream. It leaves out the time that the caller takes
// between two messages, or before it ends the stream.
//
// The server is busy from the arrival of a message until all messages are counted, and from the end
// of the caller's messages until the answer. Time is an argument. Not thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_STREAM_TIME_H_
#define HISTOGRAM_SERVER_REQUEST_STREAM_TIME_H_

#include <cstdint>

#include "server/base/clock.h"

namespace histogram::server {

class StreamTime {
 public:
  // A message came.
  void Arrived(TimeNs now) {
    Work(now);
    before_last_ = Busy(now);
  }
  // All messages so far are counted; the server waits for the caller.
  void Waits(TimeNs now) {
    busy_ = Busy(now);
    working_ = false;
  }
  // No more messages come: the caller has ended them or is gone, or the server drains.
  void Ended(TimeNs now) { Work(now); }

  // The nanoseconds that the server was busy with the stream.
  uint64_t Busy(TimeNs now) const {
    return busy_ + (working_ ? static_cast<uint64_t>(now - since_) : 0);
  }
  // The same since the arrival of the last message, or since the stream began if none came.
  uint64_t SinceLast(TimeNs now) const { return Busy(now) - before_last_; }

 private:
  void Work(TimeNs now) {
    if (!working_) since_ = now;
    working_ = true;
  }

  uint64_t busy_ = 0;  // before since_
  uint64_t before_last_ = 0;
  TimeNs since_ = 0;
  bool working_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_STREAM_TIME_H_
