// The streams' states by tables of cases, and in a seeded simulation of the shell around them: a
// client, lanes that are done in any order, writes, cancellation and drain.
#include "server/request/stream_state.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

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

TEST(ComputeManyState, Ends) {
  PlayMany({{E::kRefused, "end refused"}, {E::kOpened, ""}});
  PlayMany({{E::kOpened, "read"}, {E::kCancelled, "end cancelled"}, {E::kReadEnd, ""}});
  PlayMany({{E::kOpened, "read"}, {E::kDrain, "end draining"}});
  PlayMany({{E::kOpened, "read"},
            {E::kMessage, ""},
            {E::kHandled, "read"},
            {E::kDrain, ""},
            {E::kReply, "write"},
            {E::kWritten, "end draining"}});
  PlayMany({{E::kOpened, "read"},
            {E::kMessage, ""},
            {E::kHandled, "read"},
            {E::kRefused, ""},
            {E::kReply, "write"},
            {E::kCancelled, ""},
            {E::kWritten, "end cancelled"}});
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

TEST(AccumulateState, AFailureEndsIt) {
  PlayAccumulate({{E::kRefused, "end refused"}, {E::kOpened, ""}});
  PlayAccumulate({{E::kOpened, "read"},
                  {E::kMessage, ""},
                  {E::kReply, "write"},
                  {E::kCancelled, ""},
                  {E::kWritten, "end refused"}});
}

// --- The simulation

// What the shells, gRPC, the batcher and a client do around a state. Each outcome comes in any
// order, as long as each operation ends after it has begun.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {}

  void Many() {
    ComputeManyState state(1 + Below(8));
    const auto step = [&](E event) { Do(state.Step(event, RoomAhead())); };
    Run(
        step,
        [&] {
          const bool is_long = Below(2) == 0;
          ++taken_;
          step(is_long ? E::kLongMessage : E::kMessage);
          Accept(step);
        },
        [&](bool waited) {
          if (waited) step(E::kRoom);
          ++ready_;
          step(E::kReply);
        });
    if (end_ == StreamEnd::kOk || end_ == StreamEnd::kDraining || end_ == StreamEnd::kRefused) {
      EXPECT_EQ(written_, taken_) << "every message has its reply before the stream ends";
    }
  }

  void Accumulate() {
    AccumulateState state;
    std::deque<bool> counted;  // of each open chunk, in order of arrival
    const auto step = [&](E event) {
      StreamActions actions = state.Step(event, RoomAhead(), 100);
      if (actions.make_last_reply) {
        EXPECT_TRUE(counted.empty()) << "the last reply holds all chunks";
        ++last_replies_;
        ++ready_;
        EXPECT_EQ(Text(actions), "last reply");
        actions = state.Step(E::kReply, RoomAhead());
      }
      Do(actions);
    };
    const auto add_up = [&] {
      while (!counted.empty() && counted.front()) {
        counted.pop_front();
        state.AddedUp(100);
        if (Below(5) == 0) {
          ++ready_;
          step(E::kReply);
        }
      }
    };
    Run(
        step,
        [&] {
          if (state.closed()) return;
          ++taken_;
          counted.push_back(false);
          step(Below(2) == 0 ? E::kLongMessage : E::kMessage);
          Accept(step);
        },
        [&](bool waited) {
          // Lanes are done in any order.
          std::vector<size_t> open;
          for (size_t i = 0; i < counted.size(); ++i) {
            if (!counted[i]) open.push_back(i);
          }
          if (!open.empty()) counted[open[Below(open.size())]] = true;
          add_up();
          step(waited ? E::kRoom : E::kHandled);
        });
    EXPECT_LE(last_replies_, 1);
    if (end_ == StreamEnd::kOk || end_ == StreamEnd::kDraining) {
      EXPECT_EQ(last_replies_, 1);
    }
  }

 private:
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  // As ReadAhead has it: a stream that holds nothing may always read.
  bool RoomAhead() { return lanes_.empty() || Below(4) > 0; }

  void Do(const StreamActions& actions) {
    EXPECT_TRUE(!ended_ || Text(actions).empty()) << "after its end: " << Text(actions);
    if (actions.write) {
      EXPECT_FALSE(writing_);
      ASSERT_GT(ready_, 0);
      --ready_;
      writing_ = true;
    }
    if (actions.read) {
      EXPECT_FALSE(reading_);
      reading_ = true;
    }
    if (actions.ask_dry) {
      EXPECT_FALSE(dry_asked_);
      dry_asked_ = true;
    }
    if (actions.end != StreamEnd::kNone) {
      EXPECT_FALSE(writing_) << "Finish beside a write";
      ended_ = true;
      end_ = actions.end;
    }
  }

  // A message is counted at once, queued, or waits for room.
  template <typename Step>
  void Accept(Step&& step) {
    const uint64_t how = Below(3);
    if (how == 2) {
      lanes_.push_back(true);
      step(E::kWaits);
    } else {
      lanes_.push_back(false);
      step(E::kHandled);
    }
  }

  // Lets things happen until nothing is left that could.
  template <typename Step, typename Message, typename Returned>
  void Run(Step&& step, Message&& message, Returned&& returned) {
    uint64_t to_send = Below(60);
    step(E::kOpened);
    for (int i = 0; i < 2000; ++i) {
      std::vector<int> choices;
      if (reading_ && (to_send > 0 || !half_closed_)) choices.push_back(0);
      if (writing_) choices.push_back(1);
      if (!lanes_.empty()) choices.push_back(2);
      if (dry_asked_) choices.push_back(3);
      if (choices.empty()) break;
      if (!cancelled_ && Below(400) == 0) {
        cancelled_ = true;
        step(E::kCancelled);
        continue;
      }
      if (!drained_ && Below(400) == 0) {
        drained_ = true;
        step(E::kDrain);
        continue;
      }
      switch (choices[Below(choices.size())]) {
        case 0:
          reading_ = false;
          if (to_send > 0 && !ended_) {
            --to_send;
            message();
          } else {
            half_closed_ = true;
            step(E::kReadEnd);
          }
          break;
        case 1:
          writing_ = false;
          ++written_;
          step(E::kWritten);
          break;
        case 2: {
          const size_t which = Below(lanes_.size());
          const bool waited = lanes_[which];
          lanes_.erase(lanes_.begin() + static_cast<ptrdiff_t>(which));
          returned(waited);
          break;
        }
        default:
          dry_asked_ = false;
          step(E::kDry);
      }
    }
    EXPECT_TRUE(ended_ || reading_) << "the stream hangs";
    if (half_closed_ || cancelled_ || drained_) {
      EXPECT_TRUE(ended_) << "the stream does not end";
    }
  }

  std::mt19937_64 random_;
  bool reading_ = false, writing_ = false, dry_asked_ = false, ended_ = false;
  bool half_closed_ = false, cancelled_ = false, drained_ = false;
  StreamEnd end_ = StreamEnd::kNone;
  int ready_ = 0, taken_ = 0, written_ = 0, last_replies_ = 0;
  std::vector<bool> lanes_;  // messages that are on their way; whether each waited for room
};

TEST(StreamSimulation, EveryMessageIsAnsweredAndEveryStreamEnds) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed).Many();
    Simulation(seed).Accumulate();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace histogram::server
