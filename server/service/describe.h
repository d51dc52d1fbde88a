// The answer to Describe: what runs here.
#ifndef HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_
#define HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"

namespace histogram::server {

// A v1::DescribeResponse as its bytes. Reads the backends' state anew at each call. Thread-safe.
std::string Describe(const std::string& version, const std::vector<Backend*>& backends,
                     const TransportConfig& transport, const BatchingLimits& batching,
                     const std::vector<Batcher::Placement>& placements);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_DESCRIBE_H_
