// The streams' states by tables of cases. tests/simulation runs them in a world of calls.
#include "server/request/stream_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/request/stream_time.h"

namespace histogram::server {
namespace {

using E = StreamEvent;

// "read, write" and so on, in the order in which the shell does them.
std::string Text(const StreamActions& actions) {
  std::string text;
  const auto add = [&text](const char* what) {
    text += text.empty() ? what : std::string(", ") + what;
  };
  if (actions.make_last_reply) add("last reply");
  if (actions.write) add(actions.keep ? "keep" : "write");
  if (actions.read) add("read");
  if (actions.ask_dry) add("dry?");
  switch (actions.end) {
    case StreamEnd::kNone:
      break;
    case StreamEnd::kOk:
      add("end ok");
      break;
    case StreamEnd::kRefused:
      add("end refused");
      break;
    case StreamEnd::kDraining:
      add("end draining");
      break;
    case StreamEnd::kCancelled:
      add("end cancelled");
      break;
  }
  return text;
}

struct Line {
  StreamEvent event;
  const char* actions;
  bool room_ahead = true;
};

void PlayMany(const std::vector<Line>& lines, uint32_t unanswered_max = 64) {
  ComputeManyState state(unanswered_max);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(Text(state.Step(lines[i].event, lines[i].room_ahead)), lines[i].actions)
        << "line " << i;
  }
}

void PlayAccumulate(const std::vector<Line>& lines, uint64_t chunk_bytes = 1000) {
  AccumulateState state;
  for (size_t i = 0; i < lines.size(); ++i) {
    // kReply stands for a chunk that was added up where a chunk is open and no last reply is due.
    EXPECT_EQ(Text(state.Step(lines[i].event, lines[i].room_ahead, chunk_bytes)), lines[i].actions)
        << "line " << i;
  }
}

TEST(ComputeManyState, OneMessageAtATime) {
  PlayMany({{E::kOpened, "read"},
            {E::kMessage, ""},
            {E::kReply, "write"},
            {E::kHandled, "read"},
            {E::kWritten, ""},
            {E::kMessage, ""},
            {E::kReply, "dry?"},  // to see whether others join it
            {E::kHandled, "read"},
            {E::kDry, "write"},
            {E::kWritten, ""},
            {E::kReadEnd, "end ok"}});
}

TEST(ComputeManyState, AClientThatWaitsForEachAnswerSeldomWaitsForOthers) {
  ComputeManyState state(64);
  state.Step(E::kOpened, true);
  uint32_t held_back = 0;
  constexpr uint32_t kMessages = 10 * ComputeManyState::kTryEvery;
  for (uint32_t i = 0; i < kMessages; ++i) {
    state.Step(E::kMessage, true);
    if (state.Step(E::kReply, true).ask_dry) {
      ++held_back;
      EXPECT_TRUE(state.Step(E::kDry, true).write);
    }
    state.Step(E::kHandled, true);
    state.Step(E::kWritten, true);
  }
  EXPECT_EQ(held_back, kMessages / ComputeManyState::kTryEvery);
}

TEST(ComputeManyState, ALongMessageLetsTheNextBeRead) {
  PlayMany({{E::kOpened, "read"}, {E::kLongMessage, "read"}, {E::kReply, "write"}});
}

TEST(ComputeManyState, RepliesThatAreReadyTogetherAreSentTogether) {
  PlayMany({{E::kOpened, "read"},
            {E::kMessage, ""},
            {E::kHandled, "read"},
            {E::kMessage, ""},
            {E::kHandled, "read"},
            {E::kMessage, ""},
            {E::kHandled, "read"},
            {E::kReply, "write"},  // the first write carries the header and is sent at once
            {E::kReply, ""},
            {E::kReply, ""},
            {E::kWritten, "keep"},
            {E::kWritten, "dry?"},  // the newest waits for others
            {E::kDry, "write"},
            {E::kWritten, ""}});
}

TEST(ComputeManyState, KeptRepliesAreSentAtLast) {
  constexpr uint32_t kMessages = 40;
  ComputeManyState state(kMessages);
  state.Step(E::kOpened, true);
  for (uint32_t i = 0; i < kMessages; ++i) {
    state.Step(E::kMessage, true);
    state.Step(E::kHandled, true);
  }
  uint32_t kept = 0, written = 0;
  StreamActions actions;
  for (uint32_t i = 0; i < kMessages; ++i) {
    actions = state.Step(E::kReply, true);
    while (actions.write) {
      kept = actions.keep ? kept + 1 : 0;
      ++written;
      EXPECT_LE(kept, ComputeManyState::kKeptMax);
      actions = state.Step(E::kWritten, true);
    }
  }
  EXPECT_EQ(written, kMessages - 1);
  EXPECT_TRUE(state.Step(E::kDry, true).write);
}

TEST(ComputeManyState, NothingIsReadWhile) {
  PlayMany({{E::kOpened, "", false}, {E::kHandled, "read"}});
  PlayMany({{E::kOpened, "read"}, {E::kMessage, ""}, {E::kWaits, ""}, {E::kRoom, "read"}});
  PlayMany({{E::kOpened, "read"}, {E::kMessage, ""}, {E::kHandled, ""}}, 1);
}

TEST(AccumulateState, ChunksAndTheLastReply) {
  PlayAccumulate({{E::kOpened, "read"},
                  {E::kReadEnd, "last reply"},
                  {E::kReply, "write"},
                  {E::kWritten, "end ok"}});
  PlayAccumulate({{E::kOpened, "read"},
                  {E::kDrain, "last reply"},
                  {E::kReply, "write"},
                  {E::kWritten, "end draining"}});
  AccumulateState state;
  EXPECT_EQ(Text(state.Step(E::kOpened, true)), "read");
  EXPECT_EQ(Text(state.Step(E::kMessage, true, 10)), "");
  EXPECT_EQ(Text(state.Step(E::kHandled, true)), "read");
  EXPECT_EQ(Text(state.Step(E::kReadEnd, true)), "") << "a chunk is not yet counted";
  state.AddedUp(10);
  EXPECT_EQ(Text(state.Step(E::kHandled, true)), "last reply");
}

TEST(AccumulateState, NothingIsReadWhile) {
  PlayAccumulate({{E::kOpened, "read"}, {E::kMessage, ""}, {E::kWaits, ""}, {E::kRoom, "read"}});
  PlayAccumulate(
      {{E::kOpened, "read"}, {E::kLongMessage, "read"}, {E::kHandled, ""}, {E::kLongMessage, ""}},
      AccumulateState::kChunkBytesMax);
  PlayAccumulate({{E::kOpened, "", false}, {E::kHandled, "read"}});
}

TEST(StreamTime, ACallerThatThinksBetweenMessagesAndBeforeTheEndCostsNothing) {
  StreamTime time;
  time.Arrived(1'000);
  time.Waits(1'010);
  time.Arrived(5'000'000);
  time.Waits(5'000'020);
  time.Ended(9'000'000);
  EXPECT_EQ(time.SinceLast(9'000'003), 23u);
  EXPECT_EQ(time.Busy(9'000'003), 33u);
}

TEST(StreamTime, WhatIsCountedWhenTheEndComesIsPartOfIt) {
  StreamTime time;
  time.Arrived(100);
  time.Ended(110);
  EXPECT_EQ(time.SinceLast(400), 300u);
  EXPECT_EQ(time.Busy(400), 300u);
}

TEST(StreamTime, MessagesThatOverlapRunFromTheLastOne) {
  StreamTime time;
  time.Arrived(100);
  time.Arrived(150);
  time.Arrived(170);
  EXPECT_EQ(time.SinceLast(200), 30u);
  EXPECT_EQ(time.Busy(200), 100u);
  time.Waits(220);
  EXPECT_EQ(time.SinceLast(90'000), 50u);
  EXPECT_EQ(time.Busy(90'000), 120u);
}

TEST(StreamTime, AStreamWithoutMessagesRunsFromItsEnd) {
  StreamTime time;
  EXPECT_EQ(time.SinceLast(700), 0u);
  time.Ended(1'000'000);
  EXPECT_EQ(time.SinceLast(1'000'004), 4u);
}

TEST(StreamTime, ASecondEndChangesNothing) {
  StreamTime time;
  time.Ended(100);
  time.Ended(200);
  EXPECT_EQ(time.SinceLast(250), 150u);
}

}  // namespace
}  // namespace histogram::server
