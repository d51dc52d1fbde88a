// State machines of the streams: Step(event) -> actions. No gRPC, no clock, no payload.
//
// The shell around a state (server/service) passes what happens to the stream as events, does the
// actions, and reports their outcome as further events. Only the stream's event loop calls Step. A
// stream has at most one read and one write under way.
#ifndef HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_
#define HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_

#include <cstdint>

namespace histogram::server {

enum class StreamEvent : uint8_t {
  kOpened,       // a client has called
  kMessage,      // the read brought a message; it is being admitted
  kLongMessage,  // the same, and another read may begin meanwhile
  kHandled,      // the message is answered or on its way
  kWaits,        // the message waits for room in the queue
  kRoom,         // a message that waited is done
  kReply,        // a reply is ready
  kDry,          // the loop has nothing else to do: ready replies can be sent
  kWritten,      // the write is done
  kReadEnd,      // the client has sent all its messages
  kRefused,      // the stream ends with the shell's error; no more reads
  kCancelled,    // the client cancelled, went away, or its deadline passed
  kDrain,        // the server shuts down
};

enum class StreamEnd : uint8_t { kNone, kOk, kRefused, kDraining, kCancelled };

// What to do now. The shell does the actions that are set, in this order.
struct StreamActions {
  bool make_last_reply = false;  // Accumulate only; then report kReply
  bool write = false;            // write the oldest reply; then report kWritten
  bool keep = false;             // with `write`: gRPC may hold the reply until the next write
  bool read = false;             // read; then report kMessage, kLongMessage or kReadEnd
  bool ask_dry = false;          // report kDry when the loop has nothing else to do
  StreamEnd end = StreamEnd::kNone;
};

// What both states know of their stream.
struct StreamFacts {
  uint32_t waiting = 0;  // messages that wait for room in the queue
  uint32_t replies = 0;  // ready, not yet written
  bool reading = false, writing = false;
  bool handling = false;  // a message is being admitted, and no other read may begin meanwhile
  bool read_end = false, refused = false, cancelled = false, draining = false;  // as the events say
  bool ended = false;

  // What follows from `event` alone. Replies that are written are the caller's to subtract.
  void Add(StreamEvent event);
  bool failed() const { return refused || cancelled; }
  // Whether more messages may come.
  bool open() const { return !read_end && !draining && !failed(); }
  // Whether a read may begin, as far as the stream's own limits allow.
  bool may_read() const { return open() && !reading && !handling && waiting == 0; }
};

// ComputeMany: a reply for each message, in the order in which the replies are ready.
//
// A reply that is sent alone takes a system call and a packet. That costs several times the count
// of a small payload. So the newest reply is held back until the loop has nothing else to do, and
// is sent together with earlier ones. gRPC keeps a reply that is written with a hint until a later
// write. Holding back delays a client that waits for each answer. So replies are held back while
// others have lately joined them. Otherwise only one in kTryEvery is, to find out.
//
// Replies of 4 KiB that are never held back cost 49 % more CPU a call with 8 in flight, and 54 %
// with 64. Those that always are cost 9 % more with one in flight (2-core x86 VM, at 07ac9dd).
class ComputeManyState {
 public:
  // At most this many replies are kept before one is sent.
  static constexpr uint32_t kKeptMax = 15;
  // After a reply has joined one that was held back, this many replies are held back.
  static constexpr uint32_t kMemory = 64;
  // Otherwise the second reply is held back, and then one in this many. None of the three was
  // measured apart.
  static constexpr uint32_t kTryEvery = 16;

  // `unanswered_max`: the most received messages whose replies are not yet written.
  explicit ComputeManyState(uint32_t unanswered_max) : unanswered_max_(unanswered_max) {}

  // `room_ahead`: whether the stream may take in another message.
  StreamActions Step(StreamEvent event, bool room_ahead);

  bool cancelled() const { return facts_.cancelled; }

 private:
  void DecideWrite(StreamActions& actions);
  StreamEnd DecideEnd() const;

  StreamFacts facts_;
  const uint32_t unanswered_max_;
  uint32_t unanswered_ = 0;
  uint32_t kept_ = 0;       // replies that gRPC keeps
  bool flushing_ = false;   // since kDry: all ready replies are sent
  bool asked_dry_ = false;  // a reply is held back
  uint32_t joined_ = 0;     // replies left to hold back, of kMemory
  uint32_t alone_ = 0;      // replies that became ready while joined_ was 0
  bool has_sent_ = false;   // a first write is done: it has sent the header
};

// Accumulate: counts several chunks at a time, sums them in order, and sends snapshots and one last
// reply.
class AccumulateState {
 public:
  // Limits of chunks that are taken in and not yet summed. Many small chunks are taken in at a
  // time, so that reading does not wait for lanes, which take them in batches. One large chunk is
  // read while another is counted.
  static constexpr uint32_t kChunksMax = 32;
  static constexpr uint64_t kChunkBytesMax = uint64_t{4} << 20;
  // Reading pauses at this many unwritten replies: the client does not read them.
  static constexpr uint32_t kRepliesMax = 4;

  // `bytes`: with kMessage and kLongMessage, the bytes of the chunk.
  StreamActions Step(StreamEvent event, bool room_ahead, uint64_t bytes = 0);
  // The oldest chunk is counted and summed. The caller calls Step next.
  void AddedUp(uint64_t bytes) {
    --chunks_;
    chunk_bytes_ -= bytes;
  }

  // The last reply is made, or the stream has failed: later messages are not counted.
  bool closed() const { return last_reply_made_ || facts_.failed(); }
  const StreamFacts& facts() const { return facts_; }

 private:
  bool RoomForChunks() const;

  StreamFacts facts_;
  uint32_t chunks_ = 0;  // not yet summed
  uint64_t chunk_bytes_ = 0;
  bool last_reply_made_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_STREAM_STATE_H_
