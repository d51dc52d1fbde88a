// The four methods of histogram.v1.HistogramService. The three that carry payloads have files of
// their own; Describe is answered here.
#ifndef HISTOGRAM_SERVER_SERVICE_SERVICE_H_
#define HISTOGRAM_SERVER_SERVICE_SERVICE_H_

#include <functional>

#include "histogram/v1/histogram.pb.h"
#include "server/rpc/event_loop.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Thread-safe. `context` outlives the service.
class HistogramService final {
 public:
  using DescribeFn = std::function<v1::DescribeResponse()>;
  HistogramService(ServiceContext& context, DescribeFn describe);

  // To be registered with the server.
  Methods& methods() { return methods_; }
  ServiceContext& context() { return context_; }
  v1::DescribeResponse Describe() const { return describe_(); }

  // Begins to await calls in `loop`, once the server is built.
  void AwaitCalls(EventLoop& loop);

 private:
  ServiceContext& context_;
  const DescribeFn describe_;
  Methods methods_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVICE_H_
