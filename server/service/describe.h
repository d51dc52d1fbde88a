// The answer to Describe: what runs here.
#ifndef HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_
#define HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_

#include <string>
#include <vector>

#include "histogram/v1/histogram.pb.h"
#include "kernels/backend.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"

namespace histogram::server {

// Reads the backends' state anew at each call. Thread-safe.
v1::DescribeResponse Describe(const std::string& version, const std::vector<Backend*>& backends,
                              const TransportConfig& transport, const BatchingLimits& batching,
                              const std::vector<Batcher::Placement>& placements);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_
