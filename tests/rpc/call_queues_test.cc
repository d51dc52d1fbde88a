// CallQueues over queues of a real server. Events are brought about by alarms.
#include "server/rpc/call_queues.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/rpc/event.h"

namespace histogram::server {
namespace {

constexpr uint64_t kMuch = 1 << 20, kSome = 64 << 10, kLittle = 1 << 10;

// Something that some thread does, once.
class Deed {
 public:
  explicit Deed(std::function<void()> then) : then_(std::move(then)) {}
  // Which thread did it.
  std::thread::id Wait() {
    over_.WaitForNotification();
    return thread_;
  }

 protected:
  void Do() {
    thread_ = std::this_thread::get_id();
    then_();
    over_.Notify();
  }

 private:
  const std::function<void()> then_;
  std::thread::id thread_;
  absl::Notification over_;
};

class Happening final : public Event, public Deed {
 public:
  using Deed::Deed;
  void Happened(bool ok) override {
    EXPECT_TRUE(ok);
    Do();
  }
  void In(CallQueue& queue) {
    alarm_.Set(&queue.events(), gpr_now(GPR_CLOCK_MONOTONIC), static_cast<Event*>(this));
  }

 private:
  grpc::Alarm alarm_;
};

class Work final : public Posted, public Deed {
 public:
  using Deed::Deed;
  void Run() override { Do(); }
};

class CallQueuesTest : public testing::Test {
 protected:
  void Make(uint32_t count) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queues_ = std::make_unique<CallQueues>(builder, count);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    queues_->Start();
  }
  ~CallQueuesTest() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  // What calls return within an event of the queue.
  template <typename... Arguments>
  bool LentIn(uint32_t queue, Arguments... arguments) {
    return In(queue, [&] { return CallQueues::LendToCount(arguments...); });
  }
  template <typename... Arguments>
  bool ToSpareIn(uint32_t queue, Arguments... arguments) {
    return In(queue, [&] { return CallQueues::CoresToSpare(arguments...); });
  }
  template <typename Function>
  bool In(uint32_t queue, Function&& function) {
    bool result = false;
    Happening event([&] { result = function(); });
    event.In((*queues_)[queue]);
    event.Wait();
    return result;
  }

  grpc::AsyncGenericService service_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CallQueuesTest, ThereIsAtLeastOneQueue) {
  Make(0);
  EXPECT_EQ(queues_->size(), 1U);
  Happening event([] {});
  event.In((*queues_)[0]);
  event.Wait();
}

TEST_F(CallQueuesTest, EachQueueHasThreadsOfItsOwn) {
  Make(3);
  std::vector<std::thread::id> threads;
  absl::Notification go;
  std::vector<std::unique_ptr<Happening>> events;
  for (uint32_t i = 0; i < queues_->size(); ++i) {
    events.push_back(std::make_unique<Happening>([&] { go.WaitForNotification(); }));
    events.back()->In((*queues_)[i]);
  }
  go.Notify();
  for (const auto& event : events) threads.push_back(event->Wait());
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[1], threads[2]);
  EXPECT_NE(threads[0], threads[2]);
}

TEST_F(CallQueuesTest, ALentQueueIsServedByAnotherThread) {
  Make(2);
  absl::Notification second_is_over;
  bool lent = false, lent_again = true;
  Happening second([&] { second_is_over.Notify(); });
  Happening first([&] {
    lent = CallQueues::LendToCount(kMuch);
    lent_again = CallQueues::LendToCount(kMuch);
    second.In((*queues_)[0]);
    second_is_over.WaitForNotification();  // would never come without another thread
  });
  first.In((*queues_)[0]);
  const std::thread::id thread = first.Wait();
  EXPECT_TRUE(lent);
  EXPECT_FALSE(lent_again);
  EXPECT_NE(second.Wait(), thread);
}

TEST_F(CallQueuesTest, TheQueueGoesToAndFro) {
  Make(2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(LentIn(1, kMuch));
}

TEST_F(CallQueuesTest, ForALittleAnotherThreadDoesNotPay) {
  Make(2);
  EXPECT_FALSE(LentIn(0, kLittle));
  EXPECT_FALSE(ToSpareIn(0, kLittle));
  EXPECT_FALSE(LentIn(0, kSome)) << "counted before the other thread is awake";
  EXPECT_TRUE(ToSpareIn(0, kSome)) << "a lane that is awake saves the time";
}

TEST_F(CallQueuesTest, NothingIsToSpareWhereMoreThanHalfOfTheQueuesHaveJustCounted) {
  Make(3);
  constexpr int64_t kMs = 1'000'000;
  EXPECT_TRUE(LentIn(0, kMuch, int64_t{0})) << "one of three";
  EXPECT_TRUE(ToSpareIn(0, kSome, 10 * kMs)) << "the same one";
  EXPECT_FALSE(LentIn(1, kMuch, 30 * kMs)) << "two of three";
  EXPECT_FALSE(ToSpareIn(1, kSome, 30 * kMs)) << "two of three";
  EXPECT_TRUE(ToSpareIn(1, kSome, 31 * kMs)) << "the other one has not counted for 21 ms";
  EXPECT_TRUE(LentIn(1, kMuch, 31 * kMs)) << "nor since";
}

TEST_F(CallQueuesTest, ASingleQueueIsNeverLent) {
  Make(1);
  EXPECT_FALSE(LentIn(0, kMuch));
}

TEST_F(CallQueuesTest, ElsewhereNothingIsLent) {
  Make(2);
  EXPECT_FALSE(CallQueues::LendToCount(kMuch));
  EXPECT_FALSE(CallQueues::CoresToSpare(kMuch));
}

TEST_F(CallQueuesTest, WhatIsPostedRunsInTheOrderOfPostingOnTheThreadOfTheQueue) {
  Make(2);
  CallQueue& queue = (*queues_)[1];
  std::vector<int> order;  // written by one thread
  std::vector<std::unique_ptr<Work>> works;
  constexpr int kWorks = 100;
  works.reserve(kWorks);
  for (int i = 0; i < kWorks; ++i) {
    works.push_back(std::make_unique<Work>([&order, i] { order.push_back(i); }));
  }
  absl::Notification go;
  Happening busy([&] { go.WaitForNotification(); });
  busy.In(queue);
  for (const auto& work : works) queue.Post(*work);
  go.Notify();
  const std::thread::id thread = busy.Wait();
  for (const auto& work : works) EXPECT_EQ(work->Wait(), thread);
  ASSERT_EQ(order.size(), kWorks);
  for (int i = 0; i < kWorks; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(CallQueuesTest, WhatIsPostedWhereItBelongsRunsAtOnce) {
  Make(2);
  bool ran_here = false, ran_elsewhere = true;
  Work here([] {}), elsewhere([] {});
  absl::Notification go;
  Happening busy([&] { go.WaitForNotification(); });
  busy.In((*queues_)[1]);
  Happening event([&] {
    (*queues_)[0].Post(here);
    ran_here = here.Wait() == std::this_thread::get_id();  // would wait for ever otherwise
    (*queues_)[1].Post(elsewhere);
    go.Notify();
    ran_elsewhere = elsewhere.Wait() != std::this_thread::get_id();
  });
  event.In((*queues_)[0]);
  event.Wait();
  EXPECT_TRUE(ran_here);
  EXPECT_TRUE(ran_elsewhere);
  busy.Wait();
}

TEST_F(CallQueuesTest, WhoHasLentTheQueueLeavesWhatIsPostedToTheThreadThatServesIt) {
  Make(2);
  CallQueue& queue = (*queues_)[0];
  Work work([] {});
  absl::Notification posted;
  Happening second([&] { posted.WaitForNotification(); });
  Happening first([&] {
    ASSERT_TRUE(CallQueues::LendToCount(kMuch));
    Happening event([] {});
    event.In(queue);
    EXPECT_NE(event.Wait(), std::this_thread::get_id());  // so another thread serves it
    second.In(queue);
    queue.Post(work);
    posted.Notify();
  });
  first.In(queue);
  const std::thread::id lender = first.Wait();
  EXPECT_NE(work.Wait(), lender);
  second.Wait();
}

// Between posting and running the queue empties many times.
TEST_F(CallQueuesTest, NothingThatManyThreadsPostIsForgotten) {
  Make(1);
  CallQueue& queue = (*queues_)[0];
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  int ran = 0;  // on one thread
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        Work work([&] { ++ran; });
        queue.Post(work);
        if (i % 3 == 0) {
          Work another([&] { ++ran; });
          queue.Post(another);
          another.Wait();
        }
        work.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Happening last([] {});  // what ran, ran before it
  last.In(queue);
  last.Wait();
  EXPECT_EQ(ran, kThreads * (kEach + (kEach + 2) / 3));
}

TEST_F(CallQueuesTest, WorkMayPostAndGo) {
  Make(1);
  CallQueue& queue = (*queues_)[0];
  absl::Notification over;
  struct Chain final : Posted {
    void Run() override {
      if (left == 0) {
        over->Notify();
      } else {
        auto* next = new Chain;
        next->queue = queue;
        next->over = over;
        next->left = left - 1;
        queue->Post(*next);
      }
      delete this;
    }
    CallQueue* queue = nullptr;
    absl::Notification* over = nullptr;
    int left = 0;
  };
  auto* first = new Chain;
  first->queue = &queue;
  first->over = &over;
  first->left = 10;
  queue.Post(*first);
  over.WaitForNotification();
}

TEST_F(CallQueuesTest, ToStopWaitsForTheCallsAndServesThemMeanwhile) {
  Make(1);
  CallQueue& queue = (*queues_)[0];
  queue.CallBegun();
  server_->Shutdown();
  std::thread stopper([&] { queues_->Stop(); });
  Happening event([&] {});
  event.In(queue);  // a queue that is shut down would not take it
  event.Wait();
  Work work([] {});
  queue.Post(work);
  work.Wait();
  queue.CallEnded();
  stopper.join();
}

TEST_F(CallQueuesTest, StoppedTwiceIsStopped) {
  Make(2);
  server_->Shutdown();
  queues_->Stop();
  queues_->Stop();
}

TEST(CallQueues, AreGoneWithoutEverHavingServed) {
  grpc::ServerBuilder builder;
  CallQueues queues(builder, 2);
}

}  // namespace
}  // namespace histogram::server
