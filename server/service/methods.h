// The methods of histogram.v1.HistogramService, with raw messages: the bytes stay in gRPC's slices.
#ifndef HISTOGRAM_SERVER_SERVICE_METHODS_H_
#define HISTOGRAM_SERVER_SERVICE_METHODS_H_

#include "server/rpc/grpc_internals.h"

namespace histogram::server {

class Methods final : public RawService {
 public:
  enum Method : int { kCompute, kComputeMany, kAccumulate, kDescribe };

  Methods() {
    AddRawMethod("/histogram.v1.HistogramService/Compute");
    AddRawMethod("/histogram.v1.HistogramService/ComputeMany");
    AddRawMethod("/histogram.v1.HistogramService/Accumulate");
    AddRawMethod("/histogram.v1.HistogramService/Describe");
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_METHODS_H_
