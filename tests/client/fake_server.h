// A histogram server for tests of the client: counts with the library, and misbehaves on demand.
// The script is set before calls are made and read by the handlers' threads; counters are guarded.
#ifndef HISTOGRAM_TESTS_CLIENT_FAKE_SERVER_H_
#define HISTOGRAM_TESTS_CLIENT_FAKE_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "histogram/v1/histogram.grpc.pb.h"

namespace histogram::client {

// The library's answer for bytes. REQUIRES: the spec is valid, and without rows.
v1::Histogram AnswerOf(const v1::Spec& spec, absl::string_view bytes);

struct Failure {
  grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  std::string message = {};
  std::string reason = {};       // of the error detail; empty: no detail
  uint64_t limit = 0;            // of the error detail
  std::string pushback_ms = {};  // trailer grpc-retry-pushback-ms; empty: none
};

struct Script {
  std::vector<Failure> failures = {};  // of the first calls, any data method, in this order
  // Of ComputeMany: payloads equal to this get an error of their own.
  std::string bad_payload = "bad";
  // Of ComputeMany: answers come in pairs, the later payload first. Needs two payloads in flight.
  bool swap_pairs = false;
  // The first stream ends UNAVAILABLE after so many answers (< 0: never).
  int stream_answers_max = -1;
  // Accumulate ends UNAVAILABLE after so many chunks, with what it has counted (< 0: never).
  int chunks_max = -1;
  uint64_t payload_bytes_max = uint64_t{64} << 20;  // told by Describe, enforced everywhere
  bool lie = false;                                 // one count too many
  bool hang = false;                                // calls wait until they are cancelled
};

struct Seen {
  int calls = 0;  // of data methods, failed ones included
  int computes = 0;
  int streams = 0;
  uint64_t payload_bytes = 0;  // received by Compute, failed ones included
  std::string authorization = {};
  std::string peer = {};
};

class FakeServer final : public v1::HistogramService::Service {
 public:
  // `address`: "127.0.0.1:0" or unix:PATH.
  explicit FakeServer(Script script = {}, const std::string& address = "127.0.0.1:0",
                      std::shared_ptr<grpc::ServerCredentials> credentials = nullptr);
  ~FakeServer() override;

  const std::string& address() const { return address_; }
  Seen seen() const;
  void SetServing(const std::string& service, bool serving);

 private:
  grpc::Status Compute(grpc::ServerContext* context, const v1::ComputeRequest* request,
                       v1::ComputeResponse* response) override;
  grpc::Status ComputeMany(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::ComputeManyResponse, v1::ComputeManyRequest>* stream) override;
  grpc::Status Accumulate(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::AccumulateResponse, v1::AccumulateRequest>* stream) override;
  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeResponse* response) override;

  // The failure that is this call's turn, or OK.
  grpc::Status Enter(grpc::ServerContext* context);
  grpc::Status CheckSize(grpc::ServerContext* context, size_t bytes) const;
  v1::Histogram Answer(const v1::Spec& spec, absl::string_view bytes) const;

  const Script script_;
  mutable absl::Mutex mutex_;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_TESTS_CLIENT_FAKE_SERVER_H_
