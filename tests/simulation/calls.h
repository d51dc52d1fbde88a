// The calls of the simulated world. Each is a small copy of its shell in server/service: the same
// states, budgets and batcher, with the world in the place of gRPC and of the event loop.
#ifndef HISTOGRAM_TESTS_SIMULATION_CALLS_H_
#define HISTOGRAM_TESTS_SIMULATION_CALLS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "server/request/stream_state.h"
#include "server/rpc/call_guard.h"
#include "tests/batching/test_job.h"

namespace histogram::server {

class World;
class SimulatedCall;

// A message that was taken in, until the call is done with it.
struct Message {
  SimulatedCall* call = nullptr;
  uint64_t number = 0;
  std::shared_ptr<TestPayload> payload;
  uint64_t received_bytes = 0;  // what it takes in memory; more than the payload here
  uint64_t reply_bytes = 0;     // held for its reply
  bool snapshot = false;        // of an Accumulate
  bool waited = false;          // for room in the queue
  bool counted = false;         // or never will be, as `status` says
  bool late = false;            // it came when the call had ended
  absl::Status status;
};

class SimulatedCall {
 public:
  SimulatedCall(World& world, uint64_t caller, uint64_t messages);
  virtual ~SimulatedCall() = default;
  SimulatedCall(const SimulatedCall&) = delete;
  SimulatedCall& operator=(const SimulatedCall&) = delete;

  // --- What happens to it, in the loop
  virtual void Open() = 0;
  // A read is done: a message, or the client has sent all (or is gone).
  void ReadDone();
  void WriteDone();
  // The client cancelled, or CallGuard had it cancelled. At most once.
  void Cancel();
  virtual void Drain() {}
  virtual void Dry() {}
  virtual void Returned(Message& message) = 0;

  uint64_t caller() const { return caller_; }
  bool reading() const { return reading_; }
  bool writing() const { return writing_; }
  bool cancelled() const { return cancelled_; }
  bool ended() const { return ended_; }
  TimeNs writing_since() const { return writing_since_; }
  bool held_when_written() const { return held_when_written_; }
  uint64_t held() const { return held_; }  // for replies
  uint64_t read_ahead() const { return ahead_bytes_; }
  uint64_t read_ahead_most() const { return ahead_most_; }  // of one message
  // gRPC and the lanes are done with it.
  bool over() const { return ended_ && !reading_ && !writing_ && !dry_asked_ && away_ == 0; }
  // REQUIRES: over(). Gives back what is left, and settles what the end of the call answers.
  void Close();

  bool client_reads = true;  // what is written to it
  uint64_t to_send = 0;      // messages

 protected:
  virtual void OnMessage(std::unique_ptr<Message> received) = 0;
  virtual void OnReadEnd() = 0;
  virtual void OnWritten(bool ok) = 0;
  virtual void OnCancel() = 0;

  void StartRead();
  void StartWrite();
  void AskDry();
  // `answers_all`: the client knows what came of each message that it sent before.
  void End(bool answers_all);
  // As HoldReply and HoldTotals of server/service/caller.h.
  absl::Status HoldReply(uint64_t bytes);
  absl::Status HoldTotals(uint64_t bytes);
  void HoldAhead(uint64_t bytes);
  void LetGoAhead(uint64_t bytes);
  bool MayRead() const { return ahead_.MayTake() && memory_.MayRead(); }
  // Adds the message to the call, and to the ledger.
  Message& Accept(std::unique_ptr<Message> message);
  void Forget(Message& message) { messages_.erase(message.number); }

  // What the shells do with a message that is admitted. True where it is on its way and Returned
  // follows; else `message.status` is what came of it.
  bool Enqueue(Message& message, bool waits);
  void CancelJobs();

  World& world_;
  std::map<uint64_t, std::unique_ptr<Message>> messages_;  // by number
  CallGuard::Call memory_;       // leaves in Close, before the context goes
  uint64_t outgoing_bytes_ = 0;  // held for the reply that is being written

 private:
  friend class World;
  const uint64_t caller_;
  grpc::ServerContext context_;
  Holding ahead_;
  uint64_t held_ = 0, ahead_bytes_ = 0, ahead_most_ = 0;
  TimeNs writing_since_ = 0;
  bool held_when_written_ = false;
  bool reading_ = false, writing_ = false, dry_asked_ = false, ended_ = false, cancelled_ = false;
  bool answers_all_ = false;
  uint64_t away_ = 0;  // messages with the batcher, or posted
};

class ComputeCall final : public SimulatedCall {
 public:
  using SimulatedCall::SimulatedCall;
  void Open() override { StartRead(); }
  void Returned(Message& message) override;

 private:
  void OnMessage(std::unique_ptr<Message> received) override;
  void OnReadEnd() override { End(false); }
  void OnWritten(bool ok) override;
  void OnCancel() override { CancelJobs(); }
  void Send(Message& message);
};

class ComputeManyCall final : public SimulatedCall {
 public:
  ComputeManyCall(World& world, uint64_t caller, uint64_t messages, uint32_t unanswered_max)
      : SimulatedCall(world, caller, messages), state_(unanswered_max) {}
  void Open() override { Step(StreamEvent::kOpened); }
  void Drain() override { Step(StreamEvent::kDrain); }
  void Dry() override { Step(StreamEvent::kDry); }
  void Returned(Message& message) override;

 private:
  void OnMessage(std::unique_ptr<Message> received) override;
  void OnReadEnd() override { Step(StreamEvent::kReadEnd); }
  void OnWritten(bool ok) override;
  void OnCancel() override;
  void Step(StreamEvent event);
  void AddReply(Message& message);

  ComputeManyState state_;
  std::deque<Message*> replies_;
  Message* outgoing_ = nullptr;
};

class AccumulateCall final : public SimulatedCall {
 public:
  using SimulatedCall::SimulatedCall;
  void Open() override { Step(StreamEvent::kOpened); }
  void Drain() override { Step(StreamEvent::kDrain); }
  void Returned(Message& message) override;

 private:
  // A reply: how many messages it counts, and what is held for it.
  struct Total {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };
  void OnMessage(std::unique_ptr<Message> received) override;
  void OnReadEnd() override { Step(StreamEvent::kReadEnd); }
  void OnWritten(bool ok) override;
  void OnCancel() override { Fail(absl::CancelledError(), StreamEvent::kCancelled); }
  void Step(StreamEvent event, uint64_t bytes = 0);
  void Fail(absl::Status status, StreamEvent event = StreamEvent::kRefused);
  void Counted(Message& message);
  void AddUp(Message& message);
  void PushReply(uint64_t bytes);

  AccumulateState state_;
  std::deque<Message*> open_;   // not yet added up, in order of arrival
  std::deque<uint64_t> added_;  // numbers of those that were
  std::deque<Total> replies_;
  Total outgoing_;
  bool begun_ = false;
  absl::Status error_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_SIMULATION_CALLS_H_
