#include "server/service/served_stream.h"

#include <string>
#include <utility>

#include "kernels/error.h"

namespace histogram::server {

void ServedStream::OnHeaders() {
  deadline_ = DeadlineOf(context());
  service_.observer.StreamOpened(method_);
  service_.open_calls.Add(0, 1);
  absl::Status identified = IdentifyCaller(service_, context(), caller_);
  fairness_id_ = FairnessId(service_, caller_);
  memory().SetCaller(fairness_id_);
  memory().SetPeer(PeerId(service_, caller_));
  service_.streams.Add(self_, loop());
  if (!identified.ok()) return Refuse(std::move(identified));
  Step(StreamEvent::kOpened);
}

void ServedStream::OnDone() {
  service_.streams.Remove(self_);
  service_.observer.StreamClosed(method_);
  service_.open_calls.Add(0, -uint64_t{1});
  self_.reset();
}

absl::Status ServedStream::AdmitMessage(ReceivedMessage& message, QuotaCharge& quota,
                                        std::shared_ptr<const Query>& query) {
  return Admit(
      method_, message.fragments, service_.limits(),
      [&](uint64_t bytes) { return quota.Take(service_, caller_, bytes); }, message.parsed, query);
}

bool ServedStream::AwaitQuota(const absl::Status& status) {
  if (status.ok()) return false;
  const ErrorDetail detail = GetErrorDetail(status);
  if (detail.reason != "QUOTA_EXCEEDED") return false;
  awaits_quota_ = true;
  const gpr_timespec wait = gpr_time_from_millis(detail.retry_after_ms.value_or(1), GPR_TIMESPAN);
  if (!quota_alarm_.has_value()) quota_alarm_.emplace();
  memory().Receiving();
  Hold();  // until the alarm has come
  quota_alarm_->Set(&loop().events(), gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), wait),
                    quota_event_.tag());
  return true;
}

void ServedStream::QuotaAlarm(bool waited) {
  awaits_quota_ = false;
  memory().Received();
  OnQuota(waited);
  Release();
}

void ServedStream::PushReply(grpc::ByteBuffer& reply, uint64_t bytes) {
  PendingReply& pending = replies_.emplace_back();
  pending.message.Swap(&reply);
  pending.bytes = bytes;
}

void ServedStream::WriteOldest(grpc::WriteOptions options) {
  outgoing_.message.Swap(&replies_.front().message);
  outgoing_.bytes = replies_.front().bytes;
  replies_.pop_front();
  memory().WriteBegun();
  StartWrite(outgoing_.message, options);
}

absl::Status ServedStream::Draining(std::string_view message) {
  absl::Status status =
      MakeError(absl::StatusCode::kUnavailable, std::string(message), {.reason = "DRAINING"});
  ObserveRefusal(service_.observer, status);
  return status;
}

}  // namespace histogram::server
