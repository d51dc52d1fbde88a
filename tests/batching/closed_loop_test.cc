// The batcher between clients that keep so many payloads in flight and backends that take what was
// measured: does it choose the backend that gets more done, soon, and without flapping?
//
// The costs were measured on an H200 host at b69c2c5: what the thread of a
// connection takes for a payload that the CPU counts, or a GPU, is connections / throughput of the
// row of that backend. Each cost varies from payload to payload, and all of them together slowly,
// by a fixed seed; so a run gives the same numbers everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <ostream>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/base/no_observer.h"
#include "tests/batching/fake_clock.h"

namespace histogram::server {
namespace {

constexpr TimeNs kOneSecond = 1'000'000'000;
constexpr double kNsPerSecond = 1e9;

// Takes batches and gives them back when the test says so; counts nothing.
class TimedBackend final : public Backend {
 public:
  TimedBackend(std::string name, uint32_t lanes, BackendKind kind, double ns_per_kib,
               uint64_t ns_a_batch)
      : ns_per_kib_(ns_per_kib), ns_a_batch_(ns_a_batch) {
    info_.name = std::move(name);
    info_.lanes = lanes;
    info_.lane_bytes = UINT64_MAX;
    info_.lane_payloads = UINT32_MAX;
    info_.kind = kind;
  }
  const BackendInfo& info() const override { return info_; }
  std::vector<KernelInfo> kernels() const override { return {}; }
  std::vector<KernelChoice> choices() const override { return {}; }
  bool up() const override { return true; }
  void MarkDown(const std::string&) override {}
  uint64_t EstimateNs(const Workload& workload) const override {
    return ns_a_batch_ +
           static_cast<uint64_t>(static_cast<double>(workload.batch_bytes) / 1024 * ns_per_kib_);
  }
  void Submit(std::unique_ptr<Batch> batch, Done done) override {
    on_submit(*batch);
    held_.emplace_back(std::move(batch), std::move(done));
  }
  void Execute(Batch& batch) override { batch.status = absl::OkStatus(); }
  // Gives back the oldest batch.
  void Finish() {
    auto [batch, done] = std::move(held_.front());
    held_.pop_front();
    done(std::move(batch));
  }

  std::function<void(const Batch&)> on_submit;

 private:
  const double ns_per_kib_;
  const uint64_t ns_a_batch_;
  BackendInfo info_;
  std::deque<std::pair<std::unique_ptr<Batch>, Done>> held_;
};

// What a payload takes of a connection's thread, by who counts it.
struct Load {
  std::string name;
  uint64_t payload_bytes = 0;
  uint32_t connections = 0;
  double cpu_a_second = 0, gpu_a_second = 0;  // the rows' throughput
  double best() const { return std::max(cpu_a_second, gpu_a_second); }
  friend void PrintTo(const Load& load, std::ostream* out) { *out << load.name; }
};

const Load k4KiBx1 = {"Compute 4 KiB x 1", 4 << 10, 1, 49'891, 45'702};
const Load k4KiBx8 = {"Compute 4 KiB x 8", 4 << 10, 8, 353'746, 221'683};
const Load k4KiBx8Many = {"ComputeMany 4 KiB x 8", 4 << 10, 8, 587'184, 261'158};
const Load k64KiBx1 = {"Compute 64 KiB x 1", 64 << 10, 1, 26'714, 31'130};
const Load k64KiBx1Many = {"ComputeMany 64 KiB x 1", 64 << 10, 1, 34'098, 46'774};
const Load k64KiBx1Accumulate = {"Accumulate 64 KiB x 1", 64 << 10, 1, 48'738, 59'894};
const Load k64KiBx8 = {"Compute 64 KiB x 8", 64 << 10, 8, 166'399, 122'647};
const Load k1MiBx1 = {"Compute 1 MiB x 1", 1 << 20, 1, 3'941, 4'441};
const Load k1MiBx8 = {"Compute 1 MiB x 8", 1 << 20, 8, 21'456, 18'612};
const Load k1MiBx16 = {"Compute 1 MiB x 16", 1 << 20, 16, 21'008, 22'225};
const Load k1MiBx1Many = {"ComputeMany 1 MiB x 1", 1 << 20, 1, 3'860, 4'694};
const Load k1MiBx8Accumulate = {"Accumulate 1 MiB x 8", 1 << 20, 8, 18'123, 19'413};

class ClosedLoop {
 public:
  explicit ClosedLoop(uint32_t seed) : random_(seed) {
    gpu_.on_submit = [this](const Batch& batch) {
      const double ns = gpu_slower_ * (40'000 + static_cast<double>(batch.bytes) / 50);
      At(clock_.Now() + static_cast<TimeNs>(ns), [this] { gpu_.Finish(); });
    };
    cpu_.on_submit = [this](const Batch&) {
      ++cpu_batches_;
      At(clock_.Now() + 20'000, [this] { cpu_.Finish(); });
    };
  }
  ~ClosedLoop() {
    closing_ = true;
    while (!events_.empty()) Step();
  }
  ClosedLoop(const ClosedLoop&) = delete;
  ClosedLoop& operator=(const ClosedLoop&) = delete;

  // Runs a load for so long; payloads a second, in the last `measured` of it.
  double Run(const Load& load, TimeNs for_ns, TimeNs measured) {
    load_ = load;
    while (connections_.size() < load.connections) {
      connections_.push_back(std::make_unique<Connection>());
      for (int i = 0; i < kInFlight; ++i) Send(*connections_.back(), NewJob());
    }
    const TimeNs end = clock_.Now() + for_ns;
    double answered = 0;
    while (clock_.Now() < end) {
      const uint64_t before = answered_;
      Step();
      if (clock_.Now() > end - measured) answered += static_cast<double>(answered_ - before);
    }
    return answered / (static_cast<double>(measured) / kNsPerSecond);
  }
  // All clients stop, and so long after the last answer there are none.
  void Pause(TimeNs for_ns) {
    load_.connections = 0;
    while (!events_.empty()) Step();
    clock_.AdvanceNs(for_ns);
    connections_.clear();
  }
  // Batches that lanes of the CPU counted.
  uint64_t CpuBatches() const { return cpu_batches_; }
  void SlowTheGpu(double factor) { gpu_slower_ = factor; }

  uint64_t Switches() {
    uint64_t switches = 0;
    for (const auto& placement : batcher_.snapshot().placements) switches += placement.switches;
    return switches;
  }
  std::string Placed() {
    for (const auto& placement : batcher_.snapshot().placements) {
      if (load_.payload_bytes <= placement.payload_bytes_max) return placement.backend;
    }
    return "nowhere";
  }

 private:
  static constexpr int kInFlight = 16;

  struct Connection;
  struct SimulatedJob final : Job {
    void Done(const absl::Status& status) override {
      EXPECT_TRUE(status.ok()) << status;
      world->Answered(*this);
    }
    ClosedLoop* world = nullptr;
    Connection* connection = nullptr;
  };
  // Its thread handles one payload after another.
  struct Connection {
    std::deque<SimulatedJob*> received;
    bool busy = false;
  };
  struct Event {
    TimeNs at = 0;
    uint64_t number = 0;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void At(TimeNs at, std::function<void()> what) {
    events_.push({at, ++events_so_far_, std::move(what)});
  }
  void Step() {
    const Event event = events_.top();
    events_.pop();
    clock_.AdvanceNs(event.at - clock_.Now());
    event.what();
  }

  SimulatedJob* NewJob() {
    SimulatedJob* job = jobs_.emplace_back(std::make_unique<SimulatedJob>()).get();
    job->world = this;
    return job;
  }
  void Send(Connection& connection, SimulatedJob* job) {
    if (closing_ || connection_index(connection) >= load_.connections) return;
    job->connection = &connection;
    connection.received.push_back(job);
    Serve(connection);
  }
  size_t connection_index(const Connection& connection) const {
    size_t i = 0;
    while (connections_[i].get() != &connection) ++i;
    return i;
  }
  void Serve(Connection& connection) {
    if (connection.busy || connection.received.empty()) return;
    connection.busy = true;
    SimulatedJob* job = connection.received.front();
    connection.received.pop_front();
    job->bytes = job->charge_bytes = load_.payload_bytes;
    const auto outcome = batcher_.Enqueue(job, Batcher::WhenFull::kWait);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const bool counted = *outcome == Batcher::Outcome::kCounted;
    const double rate = counted ? load_.cpu_a_second : load_.gpu_a_second;
    const double ns = load_.connections / rate * kNsPerSecond * Noise();
    At(clock_.Now() + static_cast<TimeNs>(ns), [this, job, counted, &connection] {
      connection.busy = false;
      if (counted) Answered(*job);
      Serve(connection);
    });
  }
  void Answered(SimulatedJob& job) {
    ++answered_;
    Send(*job.connection, &job);
  }
  // From payload to payload by 30 %, and slowly by 5 %.
  double Noise() {
    const TimeNs ms = clock_.Now() / 1'000'000;
    for (; slow_at_ms_ < ms; ++slow_at_ms_) slow_ = 0.95 * slow_ + 0.0156 * normal_(random_);
    return std::exp(0.3 * normal_(random_) - 0.045 + slow_);
  }

  std::minstd_rand random_;
  std::normal_distribution<double> normal_;
  double slow_ = 0;
  TimeNs slow_at_ms_ = 0;
  double gpu_slower_ = 1;
  FakeClock clock_;
  // Lone payloads: equal at 650 KiB.
  TimedBackend gpu_{"cuda:0", 4, BackendKind::kGpu, 50, 45'000};
  TimedBackend cpu_{"cpu", 16, BackendKind::kCpu, 120, 0};
  Batcher batcher_{{&gpu_, &cpu_}, {}, clock_, Nobody(), /*start_thread=*/false};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t events_so_far_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<SimulatedJob>> jobs_;
  Load load_;
  uint64_t answered_ = 0, cpu_batches_ = 0;
  bool closing_ = false;
};

class RecordedLoadTest : public testing::TestWithParam<Load> {};

TEST_P(RecordedLoadTest, GetsDoneWhatTheBetterBackendWould) {
  const Load& load = GetParam();
  ClosedLoop world(7);
  EXPECT_GE(world.Run(load, 2 * kOneSecond, kOneSecond), 0.95 * load.best());
  EXPECT_LE(world.Switches(), 3U) << "in two seconds";
  EXPECT_LE(world.CpuBatches(), 12U) << "one payload ends a trial; what waits for the GPU stays";
  const bool clear = std::abs(std::log(load.cpu_a_second / load.gpu_a_second)) > 0.1;
  if (clear) {
    EXPECT_EQ(world.Placed(), load.cpu_a_second > load.gpu_a_second ? "cpu" : "cuda:0");
    EXPECT_LE(world.Switches(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(H200, RecordedLoadTest,
                         testing::Values(k4KiBx1, k4KiBx8, k4KiBx8Many, k64KiBx1, k64KiBx1Many,
                                         k64KiBx1Accumulate, k64KiBx8, k1MiBx1, k1MiBx8, k1MiBx16,
                                         k1MiBx8Accumulate),
                         [](const auto& instance) {
                           std::string name = instance.param.name;
                           std::erase(name, ' ');
                           return name;
                         });

TEST(ClosedLoopTest, AdaptsWithinASecondWhenConnectionsComeAndGo) {
  ClosedLoop world(7);
  world.Run(k64KiBx1, 2 * kOneSecond, kOneSecond);
  EXPECT_EQ(world.Placed(), "cuda:0");
  EXPECT_GE(world.Run(k64KiBx8, 2 * kOneSecond, kOneSecond), 0.95 * k64KiBx8.best());
  EXPECT_EQ(world.Placed(), "cpu");
  EXPECT_GE(world.Run(k64KiBx1, 2 * kOneSecond, kOneSecond), 0.95 * k64KiBx1.best());
  EXPECT_EQ(world.Placed(), "cuda:0");
  EXPECT_LE(world.Switches(), 5U) << "three are needed";
}

TEST(ClosedLoopTest, AdaptsWithinASecondOfTrafficThatPauses) {
  constexpr TimeNs kBurst = 140'000'000, kEnd = 20'000'000, kPause = 500'000'000;
  ClosedLoop world(7);
  // Clients do not end all at once, which looks like a rate that varies.
  Load last = k1MiBx8;
  last.connections /= 4;
  last.cpu_a_second /= 4;
  last.gpu_a_second /= 4;
  for (int i = 0; i < 14; ++i) {
    world.Run(k1MiBx8, kBurst, kBurst);
    world.Run(last, kEnd, kEnd);
    world.Pause(kPause);
  }
  EXPECT_EQ(world.Placed(), "cpu");
  for (int i = 0; i < 7; ++i) {
    world.Run(k1MiBx1Many, kBurst, kBurst);
    world.Pause(kPause);
  }
  world.Run(k1MiBx1Many, kBurst, kBurst);
  EXPECT_EQ(world.Placed(), "cuda:0");
  EXPECT_LE(world.Switches(), 2U) << "one is needed";
}

TEST(ClosedLoopTest, AdaptsWithinASecondToAGpuThatANeighbourSlowsDown) {
  ClosedLoop world(7);
  world.Run(k64KiBx1Many, 2 * kOneSecond, kOneSecond);
  EXPECT_EQ(world.Placed(), "cuda:0");
  world.SlowTheGpu(20);
  EXPECT_GE(world.Run(k64KiBx1Many, 2 * kOneSecond, kOneSecond), 0.95 * k64KiBx1Many.cpu_a_second);
  EXPECT_EQ(world.Placed(), "cpu");
  world.SlowTheGpu(1);
  EXPECT_GE(world.Run(k64KiBx1Many, 2 * kOneSecond, kOneSecond), 0.95 * k64KiBx1Many.gpu_a_second);
  EXPECT_EQ(world.Placed(), "cuda:0");
}

}  // namespace
}  // namespace histogram::server
