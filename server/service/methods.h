// The methods of histogram.v1.HistogramService, with raw messages: the bytes stay in gRPC's slices.
// Each has a file of its own.
#ifndef HISTOGRAM_SERVER_SERVICE_METHODS_H_
#define HISTOGRAM_SERVER_SERVICE_METHODS_H_

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/rpc/event_loop.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Each awaits one call in `loop`; when its client comes, it awaits the next one. A call lives until
// gRPC and the batcher have both let go of it.
using AwaitCall = void(ServiceContext& service, EventLoop& loop);
AwaitCall AwaitCompute;
// Many payloads, replies in order of completion.
AwaitCall AwaitComputeMany;
// A payload of any length in chunks, in memory of the order of its bins.
AwaitCall AwaitAccumulate;
// Answers with what ServiceContext::describe returns.
AwaitCall AwaitDescribe;

struct MethodEntry {
  const char* path;     // gRPC keeps the pointer
  const char* feature;  // as Describe names it; null for Describe itself
  AwaitCall* await;
};
inline constexpr MethodEntry kMethods[kMethodCount] = {  // by Method
    {"/histogram.v1.HistogramService/Compute", "compute", AwaitCompute},
    {"/histogram.v1.HistogramService/ComputeMany", "compute_many", AwaitComputeMany},
    {"/histogram.v1.HistogramService/Accumulate", "accumulate", AwaitAccumulate},
    {"/histogram.v1.HistogramService/Describe", nullptr, AwaitDescribe}};

// What runs here: a v1::DescribeResponse as its bytes. Reads the backends' state anew at each call.
// Thread-safe.
std::string Describe(const std::string& version, const std::vector<Backend*>& backends,
                     const TransportConfig& transport, const BatchingLimits& batching,
                     const std::vector<Batcher::Placement>& placements);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_METHODS_H_
