// The common part of ComputeMany and Accumulate: the caller, the room held for the call, its jobs,
// its one read and its one write. A stream belongs to its loop's thread. Its state decides what
// happens next (request/stream_state.h).
#ifndef HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_
#define HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/error.h"
#include "server/request/admit.h"
#include "server/request/stream_state.h"
#include "server/rpc/call.h"
#include "server/service/caller.h"
#include "server/service/grpc_bytes.h"
#include "server/service/methods.h"

namespace histogram::server {

// One message of a stream on its way through the batcher. Jobs are reused.
struct StreamJob : LoopJob {
  explicit StreamJob(ServedStream& its_stream) : stream(its_stream) {}
  void Done(const absl::Status& status) final;  // from the batcher, by any thread
  void Entered(const absl::StatusOr<Batcher::Outcome>& outcome) final;  // from the intake
  void Run() final;                                                     // from the loop

  ServedStream& stream;
  QuotaCharge quota;
  uint64_t reply_bytes = 0;  // held for its reply
  bool waited = false;       // for room in the queue
  absl::Status result;       // of the count
};

class ServedStream : public StreamCall, private Posted {
 public:
  // The stream reads no more, answers what it has read, and ends UNAVAILABLE.
  virtual void Drain() = 0;

 protected:
  ServedStream(ServiceContext& service, EventLoop& loop, Method method)
      : StreamCall(loop), service_(service), method_(method), ahead_(service.memory.read_ahead) {
    Await(service.methods.Of(method));
  }

  // From gRPC.
  void AwaitNext() final { kMethods[static_cast<int>(method_)].await(service_, loop()); }
  void OnHeaders() final;
  void OnWriteDone(bool ok) final;
  void OnDone() override;

  // Tells the state of an event, and does what follows. `bytes`: of a message.
  void Step(StreamEvent event, uint64_t bytes = 0);
  // As AccumulateState::Step.
  virtual StreamActions Decide(StreamEvent event, bool room_ahead, uint64_t bytes) = 0;
  virtual void MakeLastReply() {}
  virtual void End(StreamEnd end) = 0;
  // A write has failed: nobody reads any more.
  virtual void OnGone() = 0;
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

  // Parses and checks a message, and takes its payload from the caller's quota. `query` is in/out,
  // as server::Admit says.
  absl::Status AdmitMessage(ReceivedMessage& message, QuotaCharge& quota,
                            std::shared_ptr<const Query>& query);
  // Queues a reply, for which `bytes` are held.
  void PushReply(grpc::ByteBuffer& reply, uint64_t bytes);
  // A job that is not in use. `Kind`: the stream's kind of jobs.
  template <typename Kind>
  Kind& AcquireJob() {
    if (free_.empty()) {
      jobs_.push_back(std::make_unique<Kind>(*this));
      free_.push_back(jobs_.back().get());
    }
    StreamJob& job = *free_.back();
    free_.pop_back();
    return static_cast<Kind&>(job);
  }
  void FreeJob(StreamJob& job) { free_.push_back(&job); }
  // Nobody wants the results of the jobs any more.
  void CancelJobs();
  // Has the job counted: here, and then returns true, or elsewhere. A full queue makes it wait, and
  // with it the stream.
  bool Submit(StreamJob& job);
  // The job is counted, or never will be, as `status` says. On any thread.
  virtual void OnCounted(StreamJob& job, const absl::Status& status) = 0;
  // Then, on the loop's thread.
  virtual void OnReturned(StreamJob& job) = 0;
  // The status of a stream that the server ends because it shuts down.
  static absl::Status Draining(const std::string& message) {
    return MakeError(absl::StatusCode::kUnavailable, message, {.reason = "DRAINING"});
  }

  ServiceContext& service_;
  const Method method_;
  Holding ahead_;             // messages that came and are not yet counted
  TimeNs deadline_ = 0;       // set in OnHeaders
  Caller caller_{service_};   // likewise
  uint64_t fairness_id_ = 0;  // likewise

 private:
  friend StreamJob;
  void QuotaAlarm(bool waited);
  // From the loop: nothing else waits in it.
  void Run() final {
    Step(StreamEvent::kDry);
    Release();
  }

  bool awaits_quota_ = false;
  std::optional<grpc::Alarm> quota_alarm_;
  MemberEvent<ServedStream, &ServedStream::QuotaAlarm> quota_event_{*this};
  std::vector<std::unique_ptr<StreamJob>> jobs_;
  std::vector<StreamJob*> free_;
  std::deque<PendingReply> replies_;  // the oldest may be on its way
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVED_STREAM_H_
