// What the streams do next, as pure state: Step(event) -> actions. No gRPC, no clock, no payload.
//
// The shell around a state (server/service) turns what happens to the stream into events, does what
// the actions say, and reports the outcome as the next event. One thread calls Step: the stream's
// event loop. A stream has at most one read and one write under way.
#ifndef HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_
#define HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_

#include <cstddef>
#include <cstdint>

namespace histogram::server {

enum class StreamEvent : uint8_t {
  kOpened,       // a client has called
  kMessage,      // the read brought a message, which is being admitted now
  kLongMessage,  // the same; another read may begin meanwhile
  kHandled,      // the message is answered or on its way
  kWaits,        // the message waits for room in the queue
  kRoom,         // a message that waited is done
  kReply,        // a reply is ready
  kDry,          // nothing else waits in the loop: what is ready may as well be sent
  kWritten,      // the write is done
  kReadEnd,      // the read brought nothing: the client has sent all
  kRefused,      // nothing more is read from this client; ends with the shell's error
  kCancelled,    // the client cancelled, went away, or its deadline passed
  kDrain,        // the server shuts down
};

enum class StreamEnd : uint8_t { kNone, kOk, kRefused, kDraining, kCancelled };

// What to do now. The shell does each that is set, in this order.
struct StreamActions {
  bool make_last_reply = false;  // Accumulate: then report kReply
  bool write = false;            // the oldest reply; then report kWritten
  bool keep = false;             // of `write`: gRPC may keep it until the next write
  bool read = false;             // report kMessage, kLongMessage or kReadEnd
  bool ask_dry = false;          // report kDry once nothing else waits in the loop
  StreamEnd end = StreamEnd::kNone;
};

// ComputeMany: a reply for each message, in the order in which the replies are ready.
//
// A reply that is sent by itself costs a system call and a packet, several times what counting a
// small payload costs. So the newest reply is held back until the loop has nothing else to do, and
// goes out together with those before it. gRPC keeps a reply that is written with a hint; only a
// later write sends it. A client that waits for each answer would only lose by that: so replies are
// held back while others have joined them lately, and else now and then to see.
class ComputeManyState {
 public:
  // At most this many replies are kept before one is sent.
  static constexpr uint32_t kKeptMax = 15;
  // Once another reply has joined one that was held back, this many are held back.
  static constexpr uint32_t kMemory = 64;
  // Else the second is held back, and then one in this many.
  static constexpr uint32_t kTryEvery = 16;

  // `unanswered_max`: messages that came and whose reply is not yet written.
  explicit ComputeManyState(uint32_t unanswered_max) : unanswered_max_(unanswered_max) {}

  // `room_ahead`: whether the stream may take another message in.
  StreamActions Step(StreamEvent event, bool room_ahead);

  bool cancelled() const { return cancelled_; }

 private:
  bool MayRead() const;
  void DecideWrite(StreamActions& actions);
  StreamEnd DecideEnd() const;

  const uint32_t unanswered_max_;
  uint32_t unanswered_ = 0;
  uint32_t replies_ = 0;  // ready, not yet written
  uint32_t waiting_ = 0;  // messages that wait for room
  uint32_t kept_ = 0;     // replies that gRPC keeps
  bool reading_ = false, writing_ = false, handling_ = false;
  bool read_end_ = false, refused_ = false, draining_ = false, cancelled_ = false, ended_ = false;
  bool flushing_ = false;   // since kDry: all that is ready is sent
  bool asked_dry_ = false;  // a reply is held back
  uint32_t joined_ = 0;     // what is left of kMemory
  uint32_t alone_ = 0;      // replies that were ready while nothing was left of it
  bool has_sent_ = false;   // a first write, which carries the header, is done once it is sent
};

// Accumulate: chunks that are counted several at a time and added up in order, snapshots, and one
// last reply.
class AccumulateState {
 public:
  // Limits of what a stream has taken in and not yet added up. Small chunks are many at a time, so
  // that reading need not wait for the lanes that take them in batches; of large ones the next is
  // read while one is counted.
  static constexpr uint32_t kChunksMax = 32;
  static constexpr uint64_t kChunkBytesMax = uint64_t{4} << 20;
  // Replies that may wait for a client that does not read them, before reading pauses.
  static constexpr uint32_t kRepliesMax = 4;

  // `bytes`: of kMessage and kLongMessage, those of the chunk.
  StreamActions Step(StreamEvent event, bool room_ahead, uint64_t bytes = 0);
  // The oldest chunk is counted and added up. Part of an event: Step follows.
  void AddedUp(uint64_t bytes) {
    --chunks_;
    chunk_bytes_ -= bytes;
  }

  // Messages that come from now on are not counted: the last reply is made.
  bool closed() const { return last_reply_made_ || failed_; }
  bool half_closed() const { return half_closed_; }
  bool reading() const { return reading_; }
  // More messages may come.
  bool open() const { return !half_closed_ && !draining_ && !failed_; }

 private:
  bool MayRead() const;

  uint32_t chunks_ = 0;  // not yet added up
  uint64_t chunk_bytes_ = 0;
  uint32_t replies_ = 0;
  uint32_t waiting_ = 0;
  bool reading_ = false, writing_ = false, handling_ = false;
  bool half_closed_ = false, draining_ = false, failed_ = false;
  bool last_reply_made_ = false, ended_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_
