#include "server/service/served_stream.h"

#include <utility>

#include "kernels/error.h"

namespace histogram::server {

void StreamJob::Done(const absl::Status& status) {
  stream.OnCounted(*this, status);
  stream.loop().Post(*this);
}

void StreamJob::Entered(const absl::StatusOr<Batcher::Outcome>& outcome) {
  if (outcome.ok()) {
    waited = true;
    return stream.Step(StreamEvent::kWaits);
  }
  quota.GiveBack(stream.caller_);
  stream.OnCounted(*this, outcome.status());
  Run();
}

void StreamJob::Run() {
  if (for_lane) stream.loop().HandedBack();
  stream.OnReturned(*this);
  stream.Release();
}

void ServedStream::OnHeaders() {
  deadline_ = DeadlineOf(context());
  service_.observer.StreamOpened(method_);
  service_.open.Add(ServiceContext::kCalls, 1);
  service_.open.Add(ServiceContext::kStreams, 1);
  absl::Status identified = caller_.Identify(context());
  fairness_id_ = caller_.FairnessId();
  memory().SetCaller(fairness_id_);
  memory().SetPeer(caller_.peer_id);
  LoopContext& shared = ContextOf(service_, loop());
  shared.streams.insert(this);
  if (!identified.ok()) return Refuse(std::move(identified));
  Step(StreamEvent::kOpened);
  if (shared.draining) Drain();
}

void ServedStream::OnDone() {
  ContextOf(service_, loop()).streams.erase(this);
  service_.observer.StreamClosed(method_);
  service_.open.Add(ServiceContext::kStreams, -uint64_t{1});
  service_.open.Add(ServiceContext::kCalls, -uint64_t{1});
}

bool ServedStream::Submit(StreamJob& job) {
  Hold();  // until it has returned
  const bool counted = ContextOf(service_, loop()).intake.Take(job, Batcher::WhenFull::kWait);
  if (counted) {
    OnCounted(job, absl::OkStatus());
    job.Run();
  }
  return counted;
}

void ServedStream::CancelJobs() {
  for (const auto& job : jobs_) job->cancelled.store(true, std::memory_order_relaxed);
}

absl::Status ServedStream::AdmitMessage(ReceivedMessage& message, QuotaCharge& quota,
                                        std::shared_ptr<const Query>& query) {
  return Admit(
      method_, message.fragments, service_.limits,
      [&](uint64_t bytes) { return quota.Take(caller_, bytes); }, message.parsed, query);
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

void ServedStream::Step(StreamEvent event, uint64_t bytes) {
  const StreamActions actions =
      Decide(event, /*room_ahead=*/ahead_.MayTake() && memory().MayRead(), bytes);
  if (actions.make_last_reply) return MakeLastReply();
  if (actions.write) {
    grpc::WriteOptions options;
    if (actions.keep) options.set_buffer_hint();
    memory().WriteBegun();
    StartWrite(replies_.front().message, options);
  }
  if (actions.read) Receive();
  if (actions.ask_dry) {
    Hold();
    loop().WhenDry(*this);
  }
  if (actions.end != StreamEnd::kNone) End(actions.end);
}

void ServedStream::OnWriteDone(bool ok) {
  memory().Written(replies_.front().bytes);
  replies_.pop_front();
  if (!ok) OnGone();
  Step(StreamEvent::kWritten);
}

}  // namespace histogram::server
