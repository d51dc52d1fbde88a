// The methods of histogram.v1.HistogramService as gRPC's asynchronous interface offers them, with
// raw messages: the bytes stay in gRPC's slices.
#ifndef HISTOGRAM_SERVER_SERVICE_METHODS_H_
#define HISTOGRAM_SERVER_SERVICE_METHODS_H_

#include "histogram/v1/histogram.grpc.pb.h"

namespace histogram::server {

using Methods = v1::HistogramService::WithRawMethod_Compute<
    v1::HistogramService::WithRawMethod_ComputeMany<v1::HistogramService::WithRawMethod_Accumulate<
        v1::HistogramService::WithRawMethod_Describe<v1::HistogramService::Service>>>>;

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_METHODS_H_
