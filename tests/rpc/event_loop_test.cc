// EventLoops over the queues of a real server. Events are brought about by alarms.
#include "server/rpc/event_loop.h"

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

namespace histogram::server {
namespace {

constexpr uint64_t kMuch = 256 << 10, kLittle = 1 << 10;

// A function that some thread calls, once.
class Callback {
 public:
  explicit Callback(std::function<void()> then) : then_(std::move(then)) {}
  // Which thread called it.
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

class TestEvent final : public Event, public Callback {
 public:
  using Callback::Callback;
  void OnComplete(bool ok) override {
    EXPECT_TRUE(ok);
    Do();
  }
  void In(EventLoop& loop) {
    // In the queue when this returns: its time is past.
    alarm_.Set(&loop.events(), gpr_inf_past(GPR_CLOCK_MONOTONIC), static_cast<Event*>(this));
  }

 private:
  grpc::Alarm alarm_;
};

class Work final : public Posted, public Callback {
 public:
  using Callback::Callback;
  void Run() override { Do(); }
};

class EventLoopsTest : public testing::Test {
 protected:
  void Make(uint32_t count) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    loops_ = std::make_unique<EventLoops>(builder, count, guard_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    loops_->Start();
  }
  ~EventLoopsTest() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  // What HandOver returns within an event of the loop.
  bool HandsOverIn(uint32_t loop, uint64_t bytes) {
    return In(loop, [&, loop] { return (*loops_)[loop].HandOver(bytes); });
  }
  template <typename Function>
  bool In(uint32_t loop, Function&& function) {
    bool result = false;
    TestEvent event([&] { result = function(); });
    event.In((*loops_)[loop]);
    event.Wait();
    return result;
  }

  grpc::AsyncGenericService service_;
  MemoryLedger memory_{UINT64_MAX, [](uint64_t) { return uint64_t{0}; }};
  CallGuard guard_{memory_};
  std::unique_ptr<EventLoops> loops_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EventLoopsTest, ThereIsAtLeastOneLoop) {
  Make(0);
  EXPECT_EQ(loops_->size(), 1U);
  TestEvent event([] {});
  event.In((*loops_)[0]);
  event.Wait();
}

TEST_F(EventLoopsTest, EachLoopHasAThreadOfItsOwn) {
  Make(3);
  std::vector<std::thread::id> threads;
  absl::Notification go;
  std::vector<std::unique_ptr<TestEvent>> events;
  for (uint32_t i = 0; i < loops_->size(); ++i) {
    events.push_back(std::make_unique<TestEvent>([&] { go.WaitForNotification(); }));
    events.back()->In((*loops_)[i]);
  }
  go.Notify();
  for (const auto& event : events) threads.push_back(event->Wait());
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[1], threads[2]);
  EXPECT_NE(threads[0], threads[2]);
}

TEST_F(EventLoopsTest, ALoopThatStandsStillIsNoticed) {
  Make(2);
  absl::Notification go;
  TestEvent event([&] { go.WaitForNotification(); });
  event.In((*loops_)[1]);
  constexpr int64_t kLongNs = 50'000'000;
  while (loops_->StoodStillNs() < kLongNs) std::this_thread::yield();
  go.Notify();
  event.Wait();
  while (loops_->StoodStillNs() >= kLongNs) std::this_thread::yield();
}

TEST_F(EventLoopsTest, LittleIsNeverHandedOver) {
  Make(2);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(HandsOverIn(0, kLittle));
}

TEST_F(EventLoopsTest, AClientThatSendsAheadIsFoundOut) {
  Make(2);
  EXPECT_FALSE(HandsOverIn(0, kMuch)) << "the first one may be the only one";
  EXPECT_TRUE(HandsOverIn(0, kMuch)) << "a try";
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(HandsOverIn(0, kMuch)) << "one is not yet back";
}

TEST_F(EventLoopsTest, ASingleLoopHandsNothingOver) {
  Make(1);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(HandsOverIn(0, kMuch));
}

TEST(CountingLoops, CoresAreIdleWhileAtMostHalfOfTheLoopsCount) {
  constexpr int64_t kMs = 1'000'000;
  CountingLoops loops(3);
  EXPECT_TRUE(loops.Note(0, 0)) << "one of three";
  EXPECT_TRUE(loops.Note(0, 10 * kMs)) << "the same one";
  EXPECT_FALSE(loops.Note(1, 30 * kMs)) << "two of three";
  EXPECT_TRUE(loops.Note(1, 31 * kMs)) << "the other one has not counted for 21 ms";
}

TEST(SendsAhead, MessagesThatComeAloneAreHandedOverNowAndThen) {
  SendsAhead ahead;
  int handed_over = 0;
  constexpr int kMessages = 10 * SendsAhead::kTryEvery;
  for (int i = 0; i < kMessages; ++i) handed_over += ahead.Arrived(0) ? 1 : 0;
  EXPECT_EQ(handed_over, kMessages / static_cast<int>(SendsAhead::kTryEvery));
}

TEST(SendsAhead, WhatWasSeenIsRemembered) {
  SendsAhead ahead;
  EXPECT_TRUE(ahead.Arrived(1));
  for (uint32_t i = 0; i + 1 < SendsAhead::kMemory; ++i) EXPECT_TRUE(ahead.Arrived(0)) << i;
  EXPECT_FALSE(ahead.Arrived(0));
}

TEST_F(EventLoopsTest, WhatIsPostedRunsInTheOrderOfPostingOnTheThreadOfTheLoop) {
  Make(2);
  EventLoop& loop = (*loops_)[1];
  std::vector<int> order;  // written by one thread
  std::vector<std::unique_ptr<Work>> works;
  constexpr int kWorks = 100;
  works.reserve(kWorks);
  for (int i = 0; i < kWorks; ++i) {
    works.push_back(std::make_unique<Work>([&order, i] { order.push_back(i); }));
  }
  absl::Notification go;
  TestEvent busy([&] { go.WaitForNotification(); });
  busy.In(loop);
  for (const auto& work : works) loop.Post(*work);
  go.Notify();
  const std::thread::id thread = busy.Wait();
  for (const auto& work : works) EXPECT_EQ(work->Wait(), thread);
  ASSERT_EQ(order.size(), kWorks);
  for (int i = 0; i < kWorks; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(EventLoopsTest, WhatTheLoopPostsToItselfRunsAfterTheEvent) {
  Make(2);
  bool event_is_over = false, ran_after = false;
  Work work([&] { ran_after = event_is_over; });
  TestEvent event([&] {
    (*loops_)[0].Post(work);
    event_is_over = true;
  });
  event.In((*loops_)[0]);
  EXPECT_EQ(work.Wait(), event.Wait());
  EXPECT_TRUE(ran_after);
}

TEST_F(EventLoopsTest, WhatWaitsForADryLoopRunsAfterWhatElseWaits) {
  Make(1);
  EventLoop& loop = (*loops_)[0];
  std::vector<int> order;  // written by one thread
  absl::Notification go;
  Work dry([&] { order.push_back(2); });
  TestEvent second([&] { order.push_back(1); });
  TestEvent first([&] {
    go.WaitForNotification();
    loop.WhenDry(dry);
    order.push_back(0);
  });
  first.In(loop);
  second.In(loop);
  go.Notify();
  first.Wait();
  second.Wait();
  dry.Wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_F(EventLoopsTest, WhatWaitsForADryLoopDoesNotWaitForEver) {
  Make(1);
  EventLoop& loop = (*loops_)[0];
  // Keeps the loop busy: each event brings the next one about.
  struct Endless final : Event {
    void OnComplete(bool) override {
      if (!stop)
        alarm.Set(&loop->events(), gpr_now(GPR_CLOCK_MONOTONIC), static_cast<Event*>(this));
      else
        over.Notify();
    }
    EventLoop* loop = nullptr;
    grpc::Alarm alarm;
    bool stop = false;  // of the loop's thread
    absl::Notification over;
  } endless;
  endless.loop = &loop;
  Work dry([&] { endless.stop = true; });
  TestEvent first([&] {
    endless.OnComplete(true);
    loop.WhenDry(dry);
  });
  first.In(loop);
  first.Wait();
  dry.Wait();
  endless.over.WaitForNotification();
}

// Between posting and running the queue empties many times.
TEST_F(EventLoopsTest, NothingThatManyThreadsPostIsForgotten) {
  Make(1);
  EventLoop& loop = (*loops_)[0];
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  int ran = 0;  // on one thread
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        Work work([&] { ++ran; });
        loop.Post(work);
        if (i % 3 == 0) {
          Work another([&] { ++ran; });
          loop.Post(another);
          another.Wait();
        }
        work.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  TestEvent last([] {});  // what ran, ran before it
  last.In(loop);
  last.Wait();
  EXPECT_EQ(ran, kThreads * (kEach + (kEach + 2) / 3));
}

TEST_F(EventLoopsTest, WorkMayPostAndGo) {
  Make(1);
  EventLoop& loop = (*loops_)[0];
  absl::Notification over;
  struct Chain final : Posted {
    void Run() override {
      if (left == 0) {
        over->Notify();
      } else {
        auto* next = new Chain;
        next->loop = loop;
        next->over = over;
        next->left = left - 1;
        loop->Post(*next);
      }
      delete this;
    }
    EventLoop* loop = nullptr;
    absl::Notification* over = nullptr;
    int left = 0;
  };
  auto* first = new Chain;
  first->loop = &loop;
  first->over = &over;
  first->left = 10;
  loop.Post(*first);
  over.WaitForNotification();
}

TEST_F(EventLoopsTest, ToStopWaitsForTheCallsAndServesThemMeanwhile) {
  Make(1);
  EventLoop& loop = (*loops_)[0];
  loop.CallBegun();
  server_->Shutdown();
  std::thread stopper([&] { loops_->Stop(); });
  TestEvent event([&] {});
  event.In(loop);  // a queue that is shut down would not take it
  event.Wait();
  Work work([] {});
  loop.Post(work);
  work.Wait();
  loop.CallEnded();
  stopper.join();
}

}  // namespace
}  // namespace histogram::server
