#include "tests/client/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <histogram/plan.h>
#include <histogram/tally.h>
#include <openssl/crypto.h>

#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "forms/binning.h"
#include "forms/report.h"

namespace histogram::client {
namespace {

// gRPC's threads may outlive main(). What OpenSSL keeps for each of them would be lost, and be
// reported as a leak, if OpenSSL's exit handler came before the thread's end.
[[maybe_unused]] const int kNoExitHandler = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);

grpc::Status Fail(grpc::ServerContext* context, const Failure& failure) {
  if (!failure.reason.empty()) {
    v1::Error error;
    error.set_code(failure.code);
    error.set_message(failure.message);
    error.set_reason(failure.reason);
    error.set_limit(failure.limit);
    context->AddTrailingMetadata("histogram-error-bin", error.SerializeAsString());
  }
  if (!failure.pushback_ms.empty()) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", failure.pushback_ms);
  }
  return {failure.code, failure.message};
}

void FillReceipt(v1::Receipt& receipt) {
  receipt.set_backend("fake");
  receipt.set_kernel("plain");
  receipt.set_batch_payloads(1);
  receipt.set_queue_ns(1000);
  receipt.set_kernel_ns(20000);
  receipt.set_total_ns(30000);
}

}  // namespace

v1::Histogram AnswerOf(const v1::Spec& spec, absl::string_view bytes) {
  const bool statistics = spec.statistics() || spec.quantiles_size() > 0;
  Tally tally(Plan::OfBytes(*BinningOf(spec.binning(), SampleType::kU8)), statistics);
  tally.Add(std::as_bytes(std::span(bytes.data(), bytes.size())), /*threads=*/1);
  v1::Histogram answer;
  SetCounts(tally.Finish(), answer);
  if (spec.omit_counts()) answer.clear_counts();
  if (spec.edges() && tally.plan().binning().has_edges()) {
    const std::vector<double> edges = tally.plan().binning().ComputeEdges();
    answer.mutable_edges()->Add(edges.begin(), edges.end());
  }
  if (statistics) {
    const std::vector<double> quantiles(spec.quantiles().begin(), spec.quantiles().end());
    SetStatistics(tally.FinishStatistics(quantiles), *answer.mutable_statistics());
  }
  return answer;
}

FakeServer::FakeServer(Script script, const std::string& address,
                       std::shared_ptr<grpc::ServerCredentials> credentials)
    : script_(std::move(script)) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(
      address, credentials != nullptr ? credentials : grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = absl::StartsWith(address, "unix:") ? address : absl::StrCat("127.0.0.1:", port);
  SetServing("", true);
  SetServing("histogram.v1.HistogramService", true);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

Seen FakeServer::seen() const {
  absl::MutexLock lock(&mutex_);
  return seen_;
}

void FakeServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

grpc::Status FakeServer::Enter(grpc::ServerContext* context) {
  while (script_.hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  absl::MutexLock lock(&mutex_);
  const auto& metadata = context->client_metadata();
  if (const auto it = metadata.find("authorization"); it != metadata.end()) {
    seen_.authorization = std::string(it->second.data(), it->second.size());
  }
  seen_.peer = context->peer();
  const auto turn = static_cast<size_t>(seen_.calls++);
  if (turn < script_.failures.size()) return Fail(context, script_.failures[turn]);
  return grpc::Status::OK;
}

grpc::Status FakeServer::CheckSize(grpc::ServerContext* context, size_t bytes) const {
  if (bytes <= script_.payload_bytes_max) return grpc::Status::OK;
  return Fail(context, {grpc::StatusCode::RESOURCE_EXHAUSTED,
                        absl::StrCat("payload has ", bytes, " bytes, the limit is ",
                                     script_.payload_bytes_max),
                        "PAYLOAD_TOO_LARGE", script_.payload_bytes_max, "-1"});
}

v1::Histogram FakeServer::Answer(const v1::Spec& spec, absl::string_view bytes) const {
  v1::Histogram histogram = AnswerOf(spec, bytes);
  if (script_.lie) histogram.set_ignored(histogram.ignored() + 1);
  return histogram;
}

grpc::Status FakeServer::Compute(grpc::ServerContext* context, const v1::ComputeRequest* request,
                                 v1::ComputeResponse* response) {
  {
    absl::MutexLock lock(&mutex_);
    ++seen_.computes;
    seen_.payload_bytes += request->payload().size();
  }
  if (grpc::Status status = Enter(context); !status.ok()) return status;
  if (grpc::Status status = CheckSize(context, request->payload().size()); !status.ok()) {
    return status;
  }
  *response->mutable_histogram() = Answer(request->spec(), request->payload());
  FillReceipt(*response->mutable_receipt());
  return grpc::Status::OK;
}

grpc::Status FakeServer::ComputeMany(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::ComputeManyResponse, v1::ComputeManyRequest>* stream) {
  int stream_number = 0;
  {
    absl::MutexLock lock(&mutex_);
    stream_number = ++seen_.streams;
  }
  if (grpc::Status status = Enter(context); !status.ok()) return status;
  int answers = 0;
  std::vector<v1::ComputeManyResponse> held;
  const auto write_held = [&] {
    while (!held.empty()) {
      stream->Write(held.back());
      held.pop_back();
      ++answers;
    }
  };
  v1::ComputeManyRequest request;
  while (stream->Read(&request)) {
    if (stream_number == 1 && script_.stream_answers_max >= 0 &&
        answers >= script_.stream_answers_max) {
      return {grpc::StatusCode::UNAVAILABLE, "draining"};
    }
    v1::ComputeManyResponse response;
    response.set_request_id(request.request_id());
    const std::string& payload = request.request().payload();
    if (payload == script_.bad_payload) {
      response.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error()->set_message("this payload is bad");
      response.mutable_error()->set_reason("BAD");
    } else if (payload.size() > script_.payload_bytes_max) {
      response.mutable_error()->set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
      response.mutable_error()->set_reason("PAYLOAD_TOO_LARGE");
      response.mutable_error()->set_limit(script_.payload_bytes_max);
    } else {
      *response.mutable_response()->mutable_histogram() = Answer(request.request().spec(), payload);
      FillReceipt(*response.mutable_response()->mutable_receipt());
    }
    held.push_back(std::move(response));
    if (!script_.swap_pairs || held.size() == 2) write_held();
  }
  write_held();
  return grpc::Status::OK;
}

grpc::Status FakeServer::Accumulate(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::AccumulateResponse, v1::AccumulateRequest>* stream) {
  if (grpc::Status status = Enter(context); !status.ok()) return status;
  v1::AccumulateRequest request;
  v1::Spec spec;
  std::string bytes;
  v1::AccumulateResponse response;
  int chunks = 0;
  const auto answer = [&](bool final) {
    *response.mutable_histogram() = Answer(spec, bytes);
    FillReceipt(*response.mutable_receipt());
    response.set_final(final);
    response.set_chunks(static_cast<uint64_t>(chunks));
    stream->Write(response);
  };
  while (stream->Read(&request)) {
    if (chunks == 0) spec = request.spec();
    if (grpc::Status status = CheckSize(context, request.chunk().size()); !status.ok()) {
      return status;
    }
    bytes += request.chunk();
    ++chunks;
    if (request.snapshot()) answer(false);
    if (chunks == script_.chunks_max) {
      answer(false);
      return Fail(context, {grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING", 0, ""});
    }
  }
  answer(true);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Describe(grpc::ServerContext* /*context*/,
                                  const v1::DescribeRequest* /*request*/,
                                  v1::DescribeResponse* response) {
  response->set_version("1.2.3");
  auto* backend = response->add_backends();
  backend->set_name("fake");
  backend->set_device("a loop");
  backend->set_up(true);
  backend->set_lanes(1);
  auto* kernel = response->add_kernels();
  kernel->set_name("plain");
  kernel->set_backend("fake");
  kernel->set_summary("one byte at a time");
  kernel->set_bin_count_max(65536);
  auto* choice = response->add_choices();
  choice->set_backend("fake");
  choice->set_kernel("plain");
  choice->set_payload_bytes_max(script_.payload_bytes_max);
  choice->set_gigabytes_per_second(0.5);
  response->mutable_limits()->set_payload_bytes_max(script_.payload_bytes_max);
  response->mutable_limits()->set_bin_count_max(65536);
  response->add_features("plain");
  return grpc::Status::OK;
}

}  // namespace histogram::client
