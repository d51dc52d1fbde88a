// State that the calls of one server share. Everything here outlives the gRPC server.
#ifndef HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
#define HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/base/cells.h"
#include "server/base/clock.h"
#include "server/base/held_memory.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/http/http_server.h"
#include "server/request/admit.h"
#include "server/request/answer.h"
#include "server/rpc/read_ahead.h"
#include "server/rpc/receive_guard.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/unwritten_replies.h"
#include "server/service/authenticator.h"

namespace histogram::server {

// The part of receive_bytes_max that streams take for messages beyond the first. The rest is for
// one message of each stream and what gRPC has received of the next.
inline constexpr uint64_t kReadAheadShare = 8;
// Beside receive_bytes_max, replies that clients have not read may take this part of it, and at
// most twice as much.
inline constexpr uint64_t kUnwrittenShare = 4;
// Beside receive_bytes_max, bodies over HTTP and their replies may take this part of it: no less
// than the largest payload.
inline constexpr uint64_t kHttpShare = 2;

struct ServiceContext {
  ServiceContext(const TransportConfig& transport_config, Batcher& the_batcher, Clock& the_clock,
                 Observer& the_observer, const ReceiveMemory* receive_memory = nullptr)
      : config(transport_config),
        batcher(the_batcher),
        clock(the_clock),
        observer(the_observer),
        verifier(transport_config.verify_fraction),
        read_ahead(transport_config.receive_bytes_max / kReadAheadShare),
        unwritten(transport_config.receive_bytes_max / kUnwrittenShare, the_clock),
        held_memory(receive_memory),
        http_memory(std::make_shared<HttpMemory>(transport_config.receive_bytes_max / kHttpShare)),
        receive_guard(transport_config.receive_bytes_max, [this] { return ReceivedBytes(); }) {}

  AdmissionLimits limits() const {
    return {config.payload_bytes_max,
            {config.bin_count_max, batcher.counters_max(), batcher.phase_limits(),
             batcher.counts_directly()}};
  }

  // The bytes of messages, in part or whole, and of what gRPC needs for them: those that the
  // process holds, less those that it held before its first call, replies, and what comes over
  // HTTP. The last two have limits of their own.
  uint64_t ReceivedBytes() const {
    const uint64_t others = allocated_at_start + unwritten.bytes() + http_memory->bytes();
    const uint64_t held = held_memory.Bytes(config.receive_bytes_max);
    return held > others ? held - others : 0;
  }

  const TransportConfig config;
  Batcher& batcher;
  Clock& clock;
  Observer& observer;
  Verifier verifier;
  std::unique_ptr<Authenticator> authenticator;  // null: no tokens; set before the server starts
  std::function<std::string()> describe;         // the answer to Describe; likewise
  StreamRegistry streams;
  ReadAhead read_ahead;
  UnwrittenReplies unwritten;
  HeldMemory held_memory;
  const std::shared_ptr<HttpMemory> http_memory;  // of bodies and their replies
  uint64_t allocated_at_start = 0;                // set before the server takes its first call
  ReceiveGuard receive_guard;
  // One cell: the calls that are not over. The thread of a call's loop adds the call, and takes it
  // off. A shutdown ends soon after there is none left.
  Cells open_calls{1};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
