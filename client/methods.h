// The full names of the methods that the client calls by name.
#ifndef HISTOGRAM_CLIENT_METHODS_H_
#define HISTOGRAM_CLIENT_METHODS_H_

namespace histogram::client {

inline constexpr char kComputeMethod[] = "/histogram.v1.HistogramService/Compute";
inline constexpr char kComputeManyMethod[] = "/histogram.v1.HistogramService/ComputeMany";
inline constexpr char kAccumulateMethod[] = "/histogram.v1.HistogramService/Accumulate";
inline constexpr char kDescribeMethod[] = "/histogram.v1.HistogramService/Describe";
inline constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_METHODS_H_
