// The common part of ComputeMany and Accumulate: the caller, the room held for the call, its one
// read and its one write. A stream belongs to its loop's thread. Its state decides what happens
// next (request/stream_state.h).
#ifndef HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_
#define HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_

#include <grpcpp/alarm.h>

#include <cassert>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/request/admit.h"
#include "server/request/stream_state.h"
#include "server/rpc/call.h"
#include "server/rpc/stream_registry.h"
#include "server/service/grpc_bytes.h"
#include "server/service/identity.h"
#include "server/service/methods.h"
#include "server/service/quota.h"

namespace histogram::server {

class ServedStream : public StreamCall, public DrainableStream {
 public:
  // gRPC holds the stream from now to its end.
  void Await() {
    self_ = shared_from_this();
    StreamCall::Await([&](auto... arguments) { methods_.Request(method_, arguments...); });
  }

 protected:
  ServedStream(ServiceContext& service, Methods& methods, EventLoop& loop, Method method)
      : StreamCall(loop),
        service_(service),
        methods_(methods),
        method_(method),
        ahead_(service.memory.read_ahead) {
    assert(TraitsOf(method).is_stream);
  }

  // From gRPC.
  void OnHeaders() override;
  void OnDone() override;
  void OnShutdown() override { self_.reset(); }

  // The next event of the state.
  virtual void Step(StreamEvent event) = 0;
  // Reports `status`, and ends the stream with it once its state allows.
  virtual void Refuse(absl::Status status) = 0;

  // A message that is more than what is left of its caller's quota waits, and with it the stream,
  // which reads no further. True if `status` says so: then OnQuota follows, once. The call counts
  // as receiving meanwhile, so that the call guard may end it. REQUIRES: no read is under way.
  bool AwaitQuota(const absl::Status& status);
  // If OnQuota is awaited, it follows soon.
  void StopAwaitingQuota() {
    if (awaits_quota_) quota_alarm_->Cancel();
  }
  // `waited` is false after StopAwaitingQuota.
  virtual void OnQuota(bool waited) = 0;

  bool MayRead() { return ahead_.MayTake() && memory().MayRead(); }
  // Parses and checks a message, and takes its payload from the caller's quota. `query` is in/out,
  // as server::Admit says.
  absl::Status AdmitMessage(ReceivedMessage& message, QuotaCharge& quota,
                            std::shared_ptr<const Query>& query);
  // Queues a reply, for which `bytes` are held.
  void PushReply(grpc::ByteBuffer& reply, uint64_t bytes);
  // One begins to write the oldest reply, the other to read the next message.
  void WriteOldest(grpc::WriteOptions options = {});
  void ReadNext() { StartRead(&incoming_); }
  // The write is done: lets go of what was held for it.
  void Written() { memory().Written(outgoing_.bytes); }
  // Reports and returns the status of a stream that the server ends because it shuts down.
  absl::Status Draining(std::string_view message);

  ServiceContext& service_;
  Methods& methods_;
  const Method method_;
  Holding ahead_;              // messages that came and are not yet counted
  TimeNs deadline_ = 0;        // set in OnHeaders
  Caller caller_;              // likewise
  uint64_t fairness_id_ = 0;   // likewise
  grpc::ByteBuffer incoming_;  // of the one read under way

 private:
  std::shared_ptr<DrainableStream> self_;  // gRPC's hold on the stream: from Await to OnDone
  void QuotaAlarm(bool waited);

  bool awaits_quota_ = false;
  std::optional<grpc::Alarm> quota_alarm_;
  MemberEvent<ServedStream, &ServedStream::QuotaAlarm> quota_event_{*this};
  std::deque<PendingReply> replies_;
  PendingReply outgoing_;  // of the one write under way
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_
