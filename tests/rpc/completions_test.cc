// Completions with a real queue of gRPC's. The operation is a server's shutdown, which completes
// at once if the server has nothing open, and takes a tag of ours.
#include "server/rpc/completions.h"

#include <grpc/grpc.h>
#include <grpcpp/impl/codegen/completion_queue_tag.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace histogram::server {
namespace {

// The tag that gRPC's queue sees, and the event that a user sees, as in gRPC's C++ interface.
struct Operation final : grpc::internal::CompletionQueueTag, Event {
  explicit Operation(grpc_completion_queue* the_queue) : queue(the_queue) {
    server = grpc_server_create(nullptr, nullptr);
    grpc_server_register_completion_queue(server, queue, nullptr);
    grpc_server_start(server);
  }
  ~Operation() override { grpc_server_destroy(server); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool FinalizeResult(void** tag, bool* /*status*/) override {
    ++finalized;
    *tag = static_cast<Event*>(this);
    return true;
  }
  void Happened(bool success) override {
    ++called;
    ok = success;
    if (then) then();
  }

  void Begin() { grpc_server_shutdown_and_notify(server, queue, tag()); }
  void* tag() { return static_cast<CompletionQueueTag*>(this); }
  Event* Catch(grpc_completion_queue* of) {
    return Completions::Catch(of, [this] { Begin(); });
  }

  grpc_completion_queue* const queue;
  grpc_server* server = nullptr;
  std::function<void()> then;
  int called = 0, finalized = 0;
  bool ok = false;
};

class CompletionsTest : public testing::Test {
 protected:
  CompletionsTest() {
    grpc_init();
    queue_ = grpc_completion_queue_create_for_next(nullptr);
  }
  ~CompletionsTest() override {
    operations_.clear();
    grpc_completion_queue_shutdown(queue_);
    while (Next().type != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(queue_);
    grpc_shutdown();
  }
  Operation& New() {
    operations_.push_back(std::make_unique<Operation>(queue_));
    return *operations_.back();
  }
  // What is in the queue by now.
  grpc_event Next() {
    return grpc_completion_queue_next(queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), nullptr);
  }

  grpc_completion_queue* queue_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;
};

TEST_F(CompletionsTest, WhatCompletesAtOnceIsCalledByRunAndNotQueued) {
  Operation& operation = New();
  EXPECT_EQ(operation.Catch(queue_), &operation);
  EXPECT_EQ(operation.called, 0) << "not before Run";
  EXPECT_EQ(Next().type, GRPC_QUEUE_TIMEOUT);
  Completions::Run();
  EXPECT_EQ(operation.called, 1);
  EXPECT_EQ(operation.finalized, 1);
  EXPECT_TRUE(operation.ok);
  Completions::Run();
  EXPECT_EQ(operation.called, 1);
}

TEST_F(CompletionsTest, WithoutAQueueNothingIsCaught) {
  Operation& operation = New();
  EXPECT_EQ(operation.Catch(nullptr), nullptr);
  Completions::Run();
  EXPECT_EQ(operation.called, 0);
  EXPECT_EQ(Next().tag, operation.tag());
}

TEST_F(CompletionsTest, NothingIsCaughtThatCompletesLater) {
  EXPECT_EQ(Completions::Catch(queue_, [] {}), nullptr);
  Operation& operation = New();
  operation.Begin();
  Completions::Run();
  EXPECT_EQ(operation.called, 0);
  EXPECT_EQ(Next().tag, operation.tag());
}

TEST_F(CompletionsTest, WhatACallbackBeginsIsCalledAfterIt) {
  Operation& first = New();
  Operation& second = New();
  Operation& third = New();
  first.then = [&] {
    second.Catch(queue_);
    third.Catch(queue_);
    Completions::Run();
    EXPECT_EQ(second.called, 0) << "not within another callback";
  };
  second.then = [&] { EXPECT_EQ(third.called, 0); };
  first.Catch(queue_);
  Completions::Run();
  EXPECT_EQ(first.called, 1);
  EXPECT_EQ(second.called, 1);
  EXPECT_EQ(third.called, 1);
}

TEST_F(CompletionsTest, OneRunEndsHoweverMuchComes) {
  constexpr int kMore = 3;
  for (int i = 0; i < Completions::kCaughtMax + kMore; ++i) {
    New().then = [this, i] {
      if (static_cast<size_t>(i) + 1 < operations_.size()) operations_[i + 1]->Catch(queue_);
    };
  }
  operations_.front()->Catch(queue_);
  Completions::Run();
  EXPECT_EQ(operations_[Completions::kCaughtMax - 1]->called, 1);
  EXPECT_EQ(operations_[Completions::kCaughtMax]->called, 0);
  EXPECT_EQ(Next().tag, operations_[Completions::kCaughtMax]->tag());
  operations_[Completions::kCaughtMax]->then();
  Completions::Run();
  EXPECT_EQ(operations_.back()->called, 1) << "the next run has as many again";
}

}  // namespace
}  // namespace histogram::server
