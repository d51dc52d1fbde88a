#include <algorithm>
#include <set>

#include "histogram/v1/histogram.pb.h"
#include "server/base/thresholds.h"
#include "server/request/admit.h"
#include "server/request/codec.h"
#include "server/rpc/call.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/caller.h"
#include "server/service/grpc_bytes.h"
#include "server/service/methods.h"

namespace histogram::server {
namespace {

void AddBackend(const Backend& backend, v1::DescribeResponse& out) {
  const BackendInfo& info = backend.info();
  auto* b = out.add_backends();
  b->set_name(info.name);
  b->set_device(info.device);
  b->set_uuid(info.uuid);
  b->set_up(backend.up());
  b->set_lanes(info.lanes);
  // On the wire 0 says that a lane has no limit of its own: the batch's limit applies.
  b->set_lane_bytes(info.lane_bytes == UINT64_MAX ? 0 : info.lane_bytes);
  b->set_pinned_bytes(info.pinned_bytes);
  b->set_device_bytes(info.device_bytes);
}

void AddChoices(const Backend& backend, v1::DescribeResponse& out) {
  for (const KernelChoice& choice : backend.choices()) {
    auto* c = out.add_choices();
    c->set_backend(choice.backend);
    c->set_sample_type(static_cast<v1::SampleType>(InfoOf(choice.sample_type).number));
    c->set_bin_count_max(choice.bin_count_max);
    c->set_payload_bytes_max(choice.payload_bytes_max);
    c->set_payloads_max(choice.payloads_max);
    c->set_kernel(choice.kernel);
    c->set_cost_ns(choice.cost_ns);
    c->set_gigabytes_per_second(choice.gigabytes_per_second);
  }
}

// Kernels are those that this process can run, once for each kind of backend.
void AddKernels(const std::vector<Backend*>& backends, v1::DescribeResponse& out) {
  std::set<std::string> seen;
  for (const Backend* backend : backends) {
    for (const KernelInfo& kernel : backend->kernels()) {
      if (!seen.insert(kernel.backend + "/" + kernel.name).second) continue;
      auto* k = out.add_kernels();
      k->set_name(kernel.name);
      k->set_backend(kernel.backend);
      k->set_summary(kernel.summary);
      k->set_bin_count_max(kernel.bin_count_max);
    }
  }
}

// Size classes that go to the same backend are one placement.
void AddPlacements(const std::vector<Batcher::Placement>& placements, v1::DescribeResponse& out) {
  bool tried = false;
  uint64_t payload_bytes_min = 0;
  for (const Batcher::Placement& placement : placements) {
    tried |= placement.reason == "trial";
    auto& of = *(placement.typed ? out.mutable_typed_placements() : out.mutable_placements());
    if (of.empty() || of.rbegin()->backend() != placement.backend) {
      auto* p = of.Add();
      p->set_payload_bytes_min(payload_bytes_min);
      p->set_backend(placement.backend);
    }
    payload_bytes_min = placement.payload_bytes_max + 1;  // 0 after the last size
  }
  // Estimates are of a lone payload's latency; trials compare what gets done.
  out.set_objective(tried ? "throughput" : "latency");
}

class DescribeCall final : public UnaryCall {
 public:
  DescribeCall(ServiceContext& service, EventLoop& loop) : UnaryCall(loop), service_(service) {
    Await(service.methods.Of(Method::kDescribe));
  }

 private:
  void AwaitNext() override { AwaitDescribe(service_, loop()); }

  void OnHeaders() override {
    const absl::Status status = caller_.Identify(context());
    if (!status.ok()) return Answer(status, service_.clock.Now());
    memory().SetPeer(caller_.peer_id);
    Receive();
  }

  void OnReceived(bool ok) override {
    const TimeNs begin = service_.clock.Now();
    Answer(ok ? CheckRequest() : NoMessage(context(), memory()), begin);
  }

  // The object may be gone when it returns.
  void Answer(const absl::Status& status, TimeNs begin) {
    caller_.Report(Method::kDescribe, status, 0,
                   static_cast<uint64_t>(service_.clock.Now() - begin));
    if (!status.ok()) return ReplyError(FailCall(status, context()));
    Reply(EncodeMessage(service_.describe()));
  }

  absl::Status CheckRequest() {
    if (IsCompressed(received())) return CompressedMessage();
    v1::DescribeRequest request;
    using Traits = grpc::SerializationTraits<v1::DescribeRequest>;
    if (!Traits::Deserialize(&received(), &request).ok()) return Malformed("DescribeRequest");
    const auto& unknown = v1::DescribeRequest::GetReflection()->GetUnknownFields(request);
    if (unknown.empty()) return absl::OkStatus();
    return UnknownField("DescribeRequest", static_cast<uint32_t>(unknown.field(0).number()));
  }

  ServiceContext& service_;
  Caller caller_{service_};
};

}  // namespace

void AwaitDescribe(ServiceContext& service, EventLoop& loop) {
  new DescribeCall(service, loop);  // deletes itself
}

std::string Describe(const std::string& version, const std::vector<Backend*>& backends,
                     const TransportConfig& transport, const BatchingLimits& batching,
                     const std::vector<Batcher::Placement>& placements) {
  v1::DescribeResponse out;
  out.set_version(version);
  for (const Backend* backend : backends) {
    AddBackend(*backend, out);
    AddChoices(*backend, out);
  }
  AddKernels(backends, out);
  AddPlacements(placements, out);
  auto* limits = out.mutable_limits();
  limits->set_payload_bytes_max(transport.payload_bytes_max);
  limits->set_bin_count_max(transport.bin_count_max);
  limits->set_queue_bytes_max(batching.queue_bytes_max);
  limits->set_receive_bytes_max(transport.receive_bytes_max);
  limits->set_batch_payloads_max(batching.batch_payloads_max);
  limits->set_batch_bytes_max(batching.batch_bytes_max);
  limits->set_stream_payloads_max(kStreamPayloadsMax);
  limits->set_streams_max(transport.streams_max);
  limits->set_quantiles_max(kQuantilesMax);
  limits->set_rows_max(kRowsMax);
  limits->set_reply_bytes_max(ReplyBytesMax(transport.bin_count_max));
  limits->set_spec_bytes_max(kSpecBytesMax);
  for (const MethodEntry& method : kMethods) {
    if (method.feature != nullptr) out.add_features(method.feature);
  }
  for (const char* feature :
       {"statistics", "quantiles", "edges", "error_details", "receipts", "types", "sparse"}) {
    out.add_features(feature);
  }
  const bool rows = std::any_of(backends.begin(), backends.end(), [](const Backend* backend) {
    return backend->info().phases.row_bins > 0;
  });
  if (rows) out.add_features("rows");
  if (transport.verify_fraction > 0) out.add_features("verify");
  if (transport.token_file.empty()) out.add_features("reflection");
  if (!transport.tls_cert.empty()) out.add_features("tls");
  if (!transport.token_file.empty()) out.add_features("tokens");
  return out.SerializeAsString();
}

}  // namespace histogram::server
