// Unary calls, in a closed loop (each answer begins the next call) or an open one (a schedule
// does).
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/channel.h"
#include "client/load/load_session.h"

namespace histogram::client {
namespace {

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
    mu_.Await(absl::Condition(+[](size_t* calls) { return *calls == 0; }, &under_way_));
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
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      // The end of the whole run, of which the measured time may hear late: no fault of the server.
    } else if (!status.ok()) {
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

}  // namespace

std::unique_ptr<LoadWorker> MakeUnaryLoad(LoadContext context) {
  return std::make_unique<UnaryLoad>(context);
}

}  // namespace histogram::client
