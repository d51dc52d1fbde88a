// The coalescer between a client that sends and a model of what gRPC does with reads and writes.
#include "server/rpc/write_coalescer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>

namespace histogram::server {
namespace {

// One stream. Completions come back in the order in which they came about.
class Model {
 public:
  enum class Completion : uint8_t { kRead, kEnd, kWrite };

  Model() { StartRead(); }

  // The client's next message is there.
  void Arrive() {
    ++arrived;
    ++inbox_;
    if (waiting_) CompleteRead();
  }
  // The client sends no more.
  void HalfClose() {
    ended_ = true;
    if (waiting_ && inbox_ == 0) CompleteRead();
  }

  // Takes the completion at `index` from gRPC; kRead is not handled before HandleRead.
  Completion Take(size_t index = 0) {
    const Completion completion = completions[index];
    completions.erase(completions.begin() + static_cast<std::ptrdiff_t>(index));
    switch (completion) {
      case Completion::kRead:
        reading_ = known_ = false;
        coalescer_.Arrived();
        ++handled_by_others;
        break;
      case Completion::kEnd:
        known_ = false;  // and reading_ stays: nothing is read any more
        coalescer_.ReadEnded();
        Advance();
        break;
      case Completion::kWrite:
        writing_ = false;
        Advance();
        break;
    }
    return completion;
  }

  // Ends the handling of a message: its reply is there at once, or later (Reply).
  void HandleRead(bool replies) {
    --handled_by_others;
    coalescer_.Handled();
    if (replies) {
      AddReply();
    } else {
      ++later;
    }
    Advance();
  }

  void Reply() {
    --later;
    AddReply();
    Advance();
  }

  // So many replies at a time, as lanes answer.
  void ReplyInAGroup(uint32_t replies) {
    later -= replies;
    for (uint32_t i = 0; i < replies; ++i) AddReply();
    coalescer_.Grouped(replies_);
    Advance();
  }

  // As one thread does it that answers each message where it is read.
  void RunOne() {
    if (Take() == Completion::kRead) HandleRead(true);
  }
  void RunAll() {
    while (!completions.empty()) RunOne();
  }

  // So many messages, together.
  void Burst(uint64_t messages) {
    for (uint64_t i = 0; i < messages; ++i) Arrive();
    RunAll();
  }

  TimeNs now = 0;
  bool tells = true;  // that a read has completed at once
  std::deque<Completion> completions;
  uint64_t arrived = 0, sent = 0, sends = 0, unsent_most = 0;
  uint32_t handled_by_others = 0, later = 0;
  TimeNs kept_longest = 0;

 private:
  void CompleteRead() {
    waiting_ = false;
    if (inbox_ > 0) {
      --inbox_;
      completions.push_back(Completion::kRead);
    } else {
      completions.push_back(Completion::kEnd);
    }
  }
  void StartRead() {
    reading_ = waiting_ = true;
    const bool there = inbox_ > 0 || ended_;
    if (there) CompleteRead();
    known_ = there && tells;
    coalescer_.ReadBegun(known_);
  }
  void AddReply() {
    ++replies_;
    newest_at_ = now;
  }

  void Advance() {
    if (!reading_ && coalescer_.ReadsFirst()) StartRead();
    Write();
    if (!reading_) StartRead();
  }
  void Write() {
    while (!writing_ && replies_ > 0) {
      const WriteCoalescer::Step step = coalescer_.Next(replies_, newest_at_);
      if (step == WriteCoalescer::Step::kWait) {
        EXPECT_TRUE(known_ || handled_by_others > 0) << "nobody would ask again";
        return;
      }
      --replies_;
      writing_ = true;
      if (buffered_++ == 0) buffered_at_ = now;
      if (step == WriteCoalescer::Step::kSend) {
        kept_longest = std::max(kept_longest, now - buffered_at_);
        unsent_most = std::max(unsent_most, buffered_);
        sent += buffered_;
        buffered_ = 0;
        ++sends;
      } else {
        EXPECT_GT(sends, 0) << "gRPC would never be done with it";
      }
      completions.push_back(Completion::kWrite);
    }
  }

  WriteCoalescer coalescer_;
  bool reading_ = false, writing_ = false, ended_ = false;
  bool waiting_ = false;  // a read is under way, and its message is not there yet
  bool known_ = false;    // the coalescer was told that it is, and nobody has looked at it
  uint64_t inbox_ = 0;
  size_t replies_ = 0;
  TimeNs newest_at_ = 0, buffered_at_ = 0;
  uint64_t buffered_ = 0;
};

TEST(WriteCoalescerTest, ALoneMessageIsAnsweredAtOnce) {
  Model model;
  for (uint64_t i = 1; i <= 5; ++i) {
    model.Arrive();
    model.RunOne();
    EXPECT_EQ(model.sent, i);
    EXPECT_EQ(model.sends, i);
    model.RunAll();
  }
}

TEST(WriteCoalescerTest, BurstsAreAnsweredByHalves) {
  Model model;
  const auto sends_of_a_burst = [&model](uint64_t messages) {
    const uint64_t before = model.sends;
    model.Burst(messages);
    EXPECT_EQ(model.sent, model.arrived);
    return model.sends - before;
  };
  for (int i = 0; i < 4; ++i) sends_of_a_burst(24);
  EXPECT_EQ(sends_of_a_burst(24), 2);
  EXPECT_EQ(model.unsent_most, 12);
  sends_of_a_burst(4);
  EXPECT_EQ(sends_of_a_burst(4), 2);
  sends_of_a_burst(3);
  EXPECT_EQ(sends_of_a_burst(3), 3) << "two of them would leave one side idle";
}

TEST(WriteCoalescerTest, LoneMessagesAreNoRun) {
  Model model;
  for (int i = 0; i < 47; ++i) model.Burst(1);
  const uint64_t before = model.sends;
  model.Burst(3);
  EXPECT_EQ(model.sends - before, 3);
}

TEST(WriteCoalescerTest, WithoutWordOfWhatIsThereEachIsAnsweredAtOnce) {
  Model model;
  model.tells = false;
  for (int i = 0; i < 10; ++i) {
    model.Arrive();
    model.RunOne();
    EXPECT_EQ(model.sent, model.arrived);
    model.RunAll();
  }
}

// gRPC is not done with a buffered first write, which carries the header, before another is sent.
TEST(WriteCoalescerTest, TheFirstIsSent) {
  Model model;
  for (int i = 0; i < 24; ++i) {
    model.Arrive();
    ASSERT_EQ(model.Take(), Model::Completion::kRead);
    model.HandleRead(false);
  }
  model.Arrive();
  ASSERT_EQ(model.Take(), Model::Completion::kRead);
  model.Reply();
  EXPECT_EQ(model.sends, 0) << "held for the message that is being handled";
  model.Reply();
  EXPECT_EQ(model.sends, 1);
  model.HandleRead(true);
  while (model.later > 0) model.Reply();
  model.RunAll();
  EXPECT_EQ(model.sent, 25);
}

TEST(WriteCoalescerTest, AMessageThatComesDuringAWriteIsNotHeldForLong) {
  Model model;
  model.Arrive();
  model.RunOne();
  model.Arrive();
  model.RunAll();
  EXPECT_EQ(model.sent, 2);
}

TEST(WriteCoalescerTest, AReplyWaitsForTheMessageThatAnotherThreadHandles) {
  Model model;
  for (int i = 0; i < 5; ++i) model.Burst(24);
  const uint64_t sent = model.sent;
  for (int i = 0; i < 2; ++i) model.Arrive();
  model.RunOne();
  ASSERT_EQ(model.Take(), Model::Completion::kRead);
  EXPECT_TRUE(model.completions.empty()) << "the first reply is held";
  EXPECT_EQ(model.sent, sent);
  model.HandleRead(true);
  model.RunAll();
  EXPECT_EQ(model.sent, sent + 2);
}

TEST(WriteCoalescerTest, AReplyIsNotHeldForAMessageThatIsAnsweredLater) {
  Model model;
  for (int i = 0; i < 5; ++i) model.Burst(24);
  const uint64_t sent = model.sent;
  for (int i = 0; i < 2; ++i) model.Arrive();
  model.RunOne();
  ASSERT_EQ(model.Take(), Model::Completion::kRead);
  model.HandleRead(false);
  EXPECT_EQ(model.sent, sent + 1);
}

TEST(WriteCoalescerTest, AReplyIsNotHeldForTheEnd) {
  Model model;
  for (int i = 0; i < 5; ++i) model.Burst(24);
  model.Arrive();
  model.HalfClose();
  model.RunOne();
  EXPECT_EQ(model.sent, model.arrived - 1);
  ASSERT_EQ(model.Take(), Model::Completion::kEnd);
  EXPECT_EQ(model.sent, model.arrived);
}

TEST(WriteCoalescerTest, AStreamWithoutPauseIsSentInPieces) {
  Model model;
  for (int i = 0; i < 1000; ++i) {
    model.Arrive();
    model.RunOne();
    model.Arrive();
    model.RunOne();
  }
  EXPECT_LE(model.unsent_most, WriteCoalescer::kBufferedMax + 1);
  EXPECT_GT(model.unsent_most, WriteCoalescer::kBufferedMax / 2);
  EXPECT_LT(model.sends, model.sent / 4);
}

TEST(WriteCoalescerTest, WhatTakesLongIsSentSooner) {
  Model model;
  for (int i = 0; i < 1000; ++i) {
    model.now += WriteCoalescer::kBufferedNsMax / 4;
    model.Arrive();
    model.RunOne();
    model.Arrive();
    model.RunOne();
  }
  EXPECT_GT(model.unsent_most, 1);
  // Late by what the writes that were under way took: a step of the clock each.
  EXPECT_LE(model.kept_longest, WriteCoalescer::kBufferedNsMax * 3 / 2);
}

TEST(WriteCoalescerTest, AGroupIsSentTogether) {
  Model model;
  model.Burst(1);
  for (const uint32_t group : {2U, 5U, 15U, 16U}) {
    for (uint32_t i = 0; i < group; ++i) {
      model.Arrive();
      ASSERT_EQ(model.Take(), Model::Completion::kRead);
      model.HandleRead(false);
    }
    const uint64_t sends = model.sends;
    model.ReplyInAGroup(group);
    model.RunAll();
    EXPECT_EQ(model.sent, model.arrived);
    EXPECT_EQ(model.sends - sends, 1) << group;
  }
  EXPECT_EQ(model.unsent_most, WriteCoalescer::kBufferedMax + 1);
}

TEST(WriteCoalescerTest, AfterAGroupAllIsAsBefore) {
  Model model;
  model.Burst(1);
  for (int i = 0; i < 4; ++i) {
    model.Arrive();
    ASSERT_EQ(model.Take(), Model::Completion::kRead);
    model.HandleRead(false);
  }
  model.ReplyInAGroup(4);
  model.RunAll();
  for (int i = 0; i < 2; ++i) model.Burst(1);  // the group's messages were a run
  const uint64_t sends = model.sends;
  model.Burst(3);
  EXPECT_EQ(model.sends - sends, 3);
}

// Any order of completions, threads that handle messages side by side, and replies that come later:
// whatever happens, when nothing is under way any more all that was answered has been sent.
TEST(WriteCoalescerTest, NothingIsForgotten) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const size_t threads = 1 + below(3);  // 1: completions come in order
    const bool later = below(2) == 1;
    Model model;
    for (int step = 0; step < 300; ++step) {
      model.now += static_cast<TimeNs>(below(20'000));
      switch (below(4)) {
        case 0:
          for (size_t n = below(6); n > 0; --n) model.Arrive();
          break;
        case 1:
          if (model.handled_by_others > 0) model.HandleRead(!later || below(2) == 0);
          break;
        case 2:
          if (model.later > 1 && below(2) == 0) {
            model.ReplyInAGroup(1 + static_cast<uint32_t>(below(model.later)));
          } else if (model.later > 0) {
            model.Reply();
          }
          break;
        default:
          model.tells = below(8) > 0;
          if (!model.completions.empty() && model.handled_by_others < threads) {
            model.Take(threads == 1 ? 0 : below(model.completions.size()));
          }
      }
    }
    if (below(2) == 0) model.HalfClose();
    while (model.handled_by_others > 0 || model.later > 0 || !model.completions.empty()) {
      if (model.handled_by_others > 0) {
        model.HandleRead(true);
      } else if (!model.completions.empty()) {
        model.Take();
      } else {
        model.Reply();
      }
    }
    ASSERT_EQ(model.sent, model.arrived);
  }
}

}  // namespace
}  // namespace histogram::server
