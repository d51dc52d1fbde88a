#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/channel.h"
#include "client/load/load_session.h"

namespace histogram::client {
namespace {

// Unary calls, in a closed loop (each answer begins the next call) or an open one (a schedule
// does).
class UnaryLoad final : public LoadWorker {
 public:
  explicit UnaryLoad(LoadContext context)
      : context_(context), request_(context.messages.Compute()) {}

  void Start() override {
    if (!ClosedLoop()) {
      // To begin a call takes a thread for a while, a large one until the socket has taken it: one
      // thread would fall behind, and that would be counted as latency.
      const size_t pacers = QueuesFor(context_.stubs.size());
      const auto begin = LoadClock::now();
      for (size_t i = 0; i < pacers; ++i) {
        pacers_.emplace_back([this, begin, i, pacers] { Pace(begin, i, pacers); });
      }
      return;
    }
    for (uint32_t i = 0; i < context_.options.in_flight; ++i) {
      for (size_t stub = 0; stub < context_.stubs.size(); ++stub) {
        Begin(stub, LoadClock::now());
      }
    }
  }

  void Stop() override { stopping_.store(true); }

  void Join() override {
    for (std::thread& pacer : pacers_) pacer.join();
    pacers_.clear();
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](size_t* calls) { return *calls == 0; }, &under_way_));
  }

 private:
  struct Call {
    size_t stub = 0;
    LoadClock::time_point since;
    std::optional<grpc::ClientContext> rpc;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> answer;
    grpc::ByteBuffer reply;
    grpc::Status status;
    LoadEvent ended;
  };
  // More unanswered calls than this, and an open loop fails them instead of piling them up.
  static constexpr size_t kCallsMax = 20000;
  static constexpr char kTooMany[] =
      "not begun: 20,000 calls are unanswered, which is the limit of this client";

  bool ClosedLoop() const { return context_.options.rate_per_second <= 0; }

  // False where an open loop has too many.
  bool Begin(size_t stub, LoadClock::time_point since) {
    {
      absl::MutexLock lock(&mu_);
      if (!ClosedLoop() && under_way_ >= kCallsMax) return false;
      ++under_way_;
    }
    Call* const call = new Call;
    call->stub = stub;
    call->ended = [this, call](bool) { End(call); };
    Send(call, since);
    return true;
  }

  void Send(Call* call, LoadClock::time_point since) {
    call->since = since;
    call->answer.reset();
    call->rpc.emplace();
    PrepareCall(context_.options.connect, {}, absl::InfiniteFuture(), *call->rpc);
    call->answer = context_.stubs[call->stub]->PrepareUnaryCall(
        &*call->rpc, kComputeMethod,
        context_.options.new_ranges ? context_.messages.Compute() : request_,
        context_.QueueOf(call->stub));
    call->answer->StartCall();
    call->answer->Finish(&call->reply, &call->status, &call->ended);
  }

  void End(Call* call) {
    const grpc::Status& status = call->status;
    if (!status.ok()) {
      context_.tally.Failed(status, call->since);
    } else if (context_.options.verify && !context_.messages.IsComputeReply(call->reply)) {
      context_.tally.Wrong();
    } else {
      context_.tally.Answered(call->since, /*with_latency=*/true);
    }
    call->reply.Clear();
    if (ClosedLoop() && !stopping_.load(std::memory_order_relaxed)) {
      return Send(call, LoadClock::now());
    }
    delete call;
    absl::MutexLock lock(&mu_);
    --under_way_;
  }

  // Begins each `pacers`th call of the schedule, from the one numbered `first` on.
  void Pace(LoadClock::time_point begin, uint64_t first, uint64_t pacers) {
    const std::function<bool()> stop = [this] { return stopping_.load(std::memory_order_relaxed); };
    const LoadTally& tally = context_.tally;
    for (uint64_t i = first;; i += pacers) {
      auto due = After(begin, static_cast<double>(i) / context_.options.rate_per_second);
      // Leaves out requests that were due before the measured time and have not begun.
      if (tally.measuring() && due < tally.start()) {
        i = first;
        begin = LoadClock::now();
        due = After(begin, static_cast<double>(i) / context_.options.rate_per_second);
      }
      if (SleepUntil(due, stop)) return;
      if (Begin(i % context_.stubs.size(), due)) {
        context_.tally.Begun();
      } else {
        context_.tally.Failed({grpc::StatusCode::UNKNOWN, kTooMany});
      }
    }
  }

  const LoadContext context_;
  const grpc::ByteBuffer request_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> pacers_;
  absl::Mutex mu_;
  size_t under_way_ ABSL_GUARDED_BY(mu_) = 0;  // calls
};

// ComputeMany and Accumulate: each connection has one stream. ComputeMany keeps a window of
// unanswered payloads. Accumulate sends chunks as fast as the server takes them; the final
// histogram is compared with what was sent.
//
// After Start only the thread of the connection's queue uses it, but for Stop and Join. At most one
// read may be under way, and at most one of the start, a write and the half-close: gRPC aborts the
// process at a second one.
class StreamLoad final : public LoadWorker {
 public:
  StreamLoad(const LoadContext& context, size_t connection)
      : context_(context), begun_(many_ ? context.options.in_flight : 1) {
    for (size_t id = 0; id < begun_.size(); ++id) free_ids_.push_back(id);
    PrepareCall(context.options.connect, {}, absl::InfiniteFuture(), rpc_);
    stream_ = context.stubs[connection]->PrepareCall(
        &rpc_, many_ ? kComputeManyMethod : kAccumulateMethod, context.QueueOf(connection));
  }

  void Start() override { stream_->StartCall(&started_); }
  // The next event ends the writes: one is under way, or an answer to a full window will come.
  void Stop() override { stopping_.store(true, std::memory_order_relaxed); }
  // Waits for the end of the stream. It ends when it is half-closed and all replies have come, or
  // when the server ends it.
  void Join() override { over_.WaitForNotification(); }

 private:
  // The first request is written even after Stop: Accumulate needs one.
  void Started() {
    stream_->Read(&reply_, &read_);
    Write();
  }

  void Written(bool ok) {
    writing_ = false;
    if (!ok) {
      broken_ = true;
    } else if (!many_) {
      // A chunk counts when the transport has taken it: flow control keeps that close to the
      // server.
      ++chunks_;
      free_ids_.push_back(0);
      context_.tally.Answered(begun_[0], /*with_latency=*/false);
    }
    Next();
  }

  void Read(bool ok) {
    if (!ok) {
      broken_ = true;
      Next();
      return EndOnce();
    }
    if (many_) {
      Judge();
    } else if (context_.options.verify) {
      wrong_ = !context_.messages.IsAccumulateReply(reply_, chunks_);
    }
    stream_->Read(&reply_, &read_);
    Next();
  }

  void Judge() {
    uint64_t id = 0;
    using Verdict = LoadMessages::Verdict;
    const Verdict verdict = context_.messages.JudgeComputeManyReply(reply_, id);
    id %= begun_.size();
    if (verdict == Verdict::kError) {
      context_.tally.Failed(LoadMessages::ErrorOf(reply_));
    } else if (verdict == Verdict::kWrong && context_.options.verify) {
      context_.tally.Wrong();
    } else {
      context_.tally.Answered(begun_[id], /*with_latency=*/true);
    }
    free_ids_.push_back(id);
  }

  // Starts the next write if there may be one, or the half-close if there are no more. The
  // half-close also sends what was written with the promise that more would follow; the answers to
  // it come after.
  void Next() {
    if (writing_ || half_closed_) return;
    if (broken_ || stopping_.load(std::memory_order_relaxed)) {
      half_closed_ = true;
      stream_->WritesDone(&writes_done_);
    } else if (!free_ids_.empty()) {
      Write();
    }
  }

  // Up to a quarter of the window is sent together: a system call and a packet cost more than all
  // else that a small request takes. The rest of a full window is on its way, so that an answer
  // will come and another request with it.
  void Write() {
    const uint64_t id = free_ids_.front();
    free_ids_.pop_front();
    begun_[id] = LoadClock::now();
    writing_ = true;
    const bool more = ++buffered_ < begun_.size() / 4;
    if (!more) buffered_ = 0;
    grpc::WriteOptions options;
    if (more) options.set_buffer_hint();
    if (many_) request_ = context_.messages.ComputeMany(id);
    stream_->Write(request_, options, &written_);
  }

  // Called for the last read and for the half-close. The later call finishes the stream: then no
  // other operation is under way.
  void EndOnce() {
    if (++ended_ == 2) stream_->Finish(&status_, &finished_);
  }

  void Finished() {
    if (!status_.ok()) {
      context_.tally.StreamFailed(status_);
    } else if (wrong_) {
      context_.tally.Wrong();
    }
    over_.Notify();
  }

  const LoadContext context_;
  const bool many_ = context_.options.api == LoadApi::kComputeMany;  // else Accumulate
  grpc::ClientContext rpc_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  LoadEvent started_ = [this](bool) { Started(); };
  LoadEvent read_ = [this](bool ok) { Read(ok); };
  LoadEvent written_ = [this](bool ok) { Written(ok); };
  LoadEvent writes_done_ = [this](bool) { EndOnce(); };
  LoadEvent finished_ = [this](bool) { Finished(); };
  grpc::ByteBuffer request_ = context_.messages.Compute();  // a chunk, unless it is written anew
  grpc::ByteBuffer reply_;
  std::vector<LoadClock::time_point> begun_;  // by the id of a request
  std::deque<uint64_t> free_ids_;             // of requests that are not under way
  uint64_t chunks_ = 0;                       // of an Accumulate, that the transport has taken
  // Whether the last reply of an Accumulate is not the right one. A server that shuts down sends
  // the counts so far, and then ends the stream with an error.
  bool wrong_ = !many_ && context_.options.verify;
  size_t buffered_ = 0;  // requests that are written but not sent
  bool writing_ = false;
  bool broken_ = false;
  bool half_closed_ = false;
  std::atomic<bool> stopping_{false};
  int ended_ = 0;  // calls of EndOnce
  grpc::Status status_;
  absl::Notification over_;
};

}  // namespace

std::unique_ptr<LoadWorker> MakeUnaryLoad(LoadContext context) {
  return std::make_unique<UnaryLoad>(context);
}

std::unique_ptr<LoadWorker> MakeStreamLoad(LoadContext context, size_t connection) {
  return std::make_unique<StreamLoad>(context, connection);
}

}  // namespace histogram::client
