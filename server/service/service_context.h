// State that the calls of one server share. Everything here outlives the gRPC server.
#ifndef HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
#define HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/base/cells.h"
#include "server/base/clock.h"
#include "server/base/memory.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/request/admit.h"
#include "server/request/answer.h"
#include "server/rpc/call_guard.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/authenticator.h"
#include "server/service/intake.h"

namespace histogram::server {

class ServedStream;

// What the calls of one event loop share. Of the loop's thread.
struct LoopContext {
  LoopContext(Batcher& batcher, EventLoop& loop) : intake(batcher, loop) {}

  Intake intake;
  absl::flat_hash_set<ServedStream*> streams;  // that are open
  bool draining = false;
};

struct ServiceContext {
  ServiceContext(const TransportConfig& transport_config, Batcher& the_batcher, Clock& the_clock,
                 Observer& the_observer, const ReceiveMemory* receive_memory = nullptr)
      : config(transport_config),
        batcher(the_batcher),
        clock(the_clock),
        observer(the_observer),
        verifier(transport_config.verify_fraction),
        memory(transport_config.receive_bytes_max, receive_memory),
        guard(memory, the_clock) {}

  AdmissionLimits limits() const {
    return {config.payload_bytes_max,
            {config.bin_count_max, batcher.counters_max(), batcher.phase_limits(),
             batcher.counts_directly()}};
  }

  const TransportConfig config;
  Batcher& batcher;
  Clock& clock;
  Observer& observer;
  Verifier verifier;
  std::unique_ptr<Authenticator> authenticator;     // null: no tokens; set before the server starts
  std::function<std::string()> describe;            // the answer to Describe; likewise
  std::vector<std::unique_ptr<LoopContext>> loops;  // by the loop's index; likewise
  RawService methods;                               // of histogram.v1.HistogramService, by Method
  MemoryLedger memory;
  CallGuard guard;
  // The calls that are not over, and of these the streams. The thread of a call's loop adds the
  // call, and takes it off. A shutdown ends soon after there is none left.
  enum Open : Cell { kCalls, kStreams };
  Cells open{2};
};

inline LoopContext& ContextOf(ServiceContext& service, const EventLoop& loop) {
  return *service.loops[loop.index()];
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
