// What is recorded comes out under the documented names, labels and units; labels stay bounded.
#include "server/metrics/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/metrics/metrics_fixture.h"

namespace histogram::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BatchReport Report(const std::string& backend, const std::string& kernel, uint32_t payloads = 1) {
  BatchReport report;
  report.backend = backend;
  report.kernel = kernel;
  report.payloads = payloads;
  report.kernel_ns = 3000;
  return report;
}

TEST(ServerMetrics, EveryFamilyIsThereFromTheStartWithHelp) {
  const ServerMetrics metrics(TwoBackends());
  const auto families = metrics.Collect();
  for (const char* name : {"requests_total",
                           "request_duration_seconds",
                           "streams_total",
                           "streams_open",
                           "stage_duration_seconds",
                           "kernel_duration_seconds",
                           "payload_bytes",
                           "batch_payloads",
                           "batch_bytes",
                           "batches_total",
                           "queue_payloads",
                           "queue_bytes",
                           "in_flight",
                           "lanes",
                           "rejected_total",
                           "expired_total",
                           "cancelled_total",
                           "fallback_total",
                           "integrity_failures_total",
                           "backend_up",
                           "backend_info",
                           "dispatch_batch_seconds",
                           "limit",
                           "draining",
                           "build_info"}) {
    const auto* family = FindFamily(families, std::string("histsvc_") + name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_FALSE(family->help.empty()) << name;
    EXPECT_FALSE(family->metric.empty()) << name;
  }
  std::set<std::string> names;
  for (const auto& family : families) EXPECT_TRUE(names.insert(family.name).second) << family.name;
}

TEST(ServerMetrics, KnownSeriesExistAtZero) {
  const ServerMetrics metrics(TwoBackends());
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total",
                    {{"method", "Compute"}, {"code", "RESOURCE_EXHAUSTED"}}),
            0);
  EXPECT_EQ(Counter(metrics, "histsvc_rejected_total", {{"reason", "queue_full"}}), 0);
  EXPECT_EQ(Counter(metrics, "histsvc_fallback_total",
                    {{"from", "cuda:0"}, {"to", "cpu"}, {"reason", "device_lost"}}),
            0);
  EXPECT_EQ(
      Counter(metrics, "histsvc_batches_total", {{"backend", "cpu"}, {"closed_by", "inline"}}), 0);
  EXPECT_EQ(Counter(metrics, "histsvc_integrity_failures_total"), 0);
  EXPECT_TRUE(Find(metrics, "histsvc_kernel_duration_seconds",
                   {{"kernel", "tables8"}, {"backend", "cpu"}}));
  EXPECT_TRUE(Find(metrics, "histsvc_stage_duration_seconds",
                   {{"stage", "transfer"}, {"backend", "cuda:0"}}));
  // A kernel that the selector does not use is shown once it has run.
  EXPECT_FALSE(
      Find(metrics, "histsvc_kernel_duration_seconds", {{"kernel", "scalar"}, {"backend", "cpu"}}));
}

TEST(ServerMetrics, RequestsAreCountedByMethodCodeAndSize) {
  ServerMetrics metrics(TwoBackends());
  metrics.RequestFinished(Method::kCompute, absl::StatusCode::kOk, 4096, 50000);
  metrics.RequestFinished(Method::kCompute, absl::StatusCode::kOk, 4097, 50001);
  metrics.RequestFinished(Method::kComputeMany, absl::StatusCode::kInternal, 1 << 20, 1);
  metrics.RequestFinished(Method::kAccumulate, absl::StatusCode::kOk, uint64_t{1} << 40,
                          60000000000);
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", {{"method", "Compute"}, {"code", "OK"}}), 2);
  EXPECT_EQ(
      Counter(metrics, "histsvc_requests_total", {{"method", "ComputeMany"}, {"code", "INTERNAL"}}),
      1);

  const auto small = Find(metrics, "histsvc_request_duration_seconds",
                          {{"method", "Compute"}, {"size_class", "le_4KiB"}});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->histogram.sample_count, 1u);
  EXPECT_DOUBLE_EQ(small->histogram.sample_sum, 50e-6);
  EXPECT_EQ(small->histogram.bucket[0].upper_bound, 50e-6);
  EXPECT_EQ(small->histogram.bucket[0].cumulative_count, 1u);
  EXPECT_GE(small->histogram.bucket.back().upper_bound, 10);

  const auto next = Find(metrics, "histsvc_request_duration_seconds",
                         {{"method", "Compute"}, {"size_class", "le_64KiB"}});
  EXPECT_EQ(next->histogram.bucket[0].cumulative_count, 0u);
  EXPECT_EQ(next->histogram.bucket[1].cumulative_count, 1u);

  const auto largest = Find(metrics, "histsvc_request_duration_seconds",
                            {{"method", "Accumulate"}, {"size_class", "gt_16MiB"}});
  EXPECT_EQ(largest->histogram.bucket.back().cumulative_count, 0u);  // beyond the last bound
  EXPECT_EQ(largest->histogram.sample_count, 1u);

  const auto bytes = Find(metrics, "histsvc_payload_bytes");
  EXPECT_EQ(bytes->histogram.sample_count, 4u);
  EXPECT_EQ(bytes->histogram.bucket[0].upper_bound, 256);
  EXPECT_EQ(bytes->histogram.bucket[2].upper_bound, 4096);
  EXPECT_EQ(bytes->histogram.bucket[2].cumulative_count, 1u);
  EXPECT_EQ(bytes->histogram.bucket.back().upper_bound, 1 << 30);
}

TEST(ServerMetrics, UnusualCodesAndMethodsAppearOnceTheyHappen) {
  ServerMetrics metrics(TwoBackends());
  const Labels describe = {{"method", "Describe"}, {"code", "OK"}};
  const Labels unknown = {{"method", "Compute"}, {"code", "UNKNOWN"}};
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", describe), -1);
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", unknown), -1);
  metrics.RequestFinished(Method::kDescribe, absl::StatusCode::kOk, 0, 1000);
  metrics.RequestFinished(Method::kCompute, static_cast<absl::StatusCode>(99), 0, 1000);
  metrics.RequestFinished(Method::kCompute, static_cast<absl::StatusCode>(-1), 0, 1000);
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", describe), 1);
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", unknown), 2);
}

TEST(ServerMetrics, BatchesAreCountedWithTheirStages) {
  ServerMetrics metrics(TwoBackends());
  BatchReport gpu = Report("cuda:0", "lane_private", 64);
  gpu.gather_ns = 1000;
  gpu.transfer_ns = 2000;
  metrics.BatchFinished(gpu, 1 << 20, ClosedBy::kPayloads);
  metrics.BatchFinished(Report("cpu", "scalar"), 100, ClosedBy::kInline);

  EXPECT_EQ(
      Counter(metrics, "histsvc_batches_total", {{"backend", "cuda:0"}, {"closed_by", "payloads"}}),
      1);
  EXPECT_EQ(
      Counter(metrics, "histsvc_batches_total", {{"backend", "cpu"}, {"closed_by", "inline"}}), 1);
  const auto stage = [&](const char* name, const char* backend) {
    return Find(metrics, "histsvc_stage_duration_seconds", {{"stage", name}, {"backend", backend}})
        ->histogram;
  };
  EXPECT_EQ(stage("gather", "cuda:0").sample_count, 1u);
  EXPECT_DOUBLE_EQ(stage("transfer", "cuda:0").sample_sum, 2e-6);
  EXPECT_EQ(stage("gather", "cpu").sample_count, 0u);  // it has none
  EXPECT_EQ(stage("kernel", "cpu").sample_count, 1u);
  EXPECT_EQ(stage("kernel", "cpu").bucket.front().upper_bound, 1e-6);
  EXPECT_EQ(stage("kernel", "cpu").bucket[1].cumulative_count, 0u);
  EXPECT_EQ(stage("kernel", "cpu").bucket[2].cumulative_count, 1u);  // 3 us, up to 4 us
  EXPECT_GE(stage("kernel", "cpu").bucket.back().upper_bound, 1);
  const auto kernel =
      Find(metrics, "histsvc_kernel_duration_seconds", {{"kernel", "scalar"}, {"backend", "cpu"}});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->histogram.sample_count, 1u);
  EXPECT_EQ(Find(metrics, "histsvc_batch_payloads")->histogram.sample_sum, 65);
  EXPECT_EQ(Find(metrics, "histsvc_batch_bytes")->histogram.sample_sum, (1 << 20) + 100);
  metrics.StageFinished(Stage::kQueue, "cpu", 5000);
  EXPECT_EQ(stage("queue", "cpu").sample_count, 1u);
}

TEST(ServerMetrics, UndeclaredNamesCountAsOtherAndAddNoSeries) {
  ServerMetrics metrics(TwoBackends());
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("other\",le")));
  for (int i = 0; i < 1000; ++i) {
    metrics.BatchFinished(Report(absl::StrCat("b", i), absl::StrCat("k", i)), 1, ClosedBy::kIdle);
    metrics.BatchFinished(Report("cpu", absl::StrCat("k", i)), 1, ClosedBy::kIdle);
    metrics.StageFinished(Stage::kReply, absl::StrCat("b", i), 1);
    metrics.FellBack(absl::StrCat("b", i), "cpu", absl::StrCat("r", i));
  }
  EXPECT_EQ(
      Counter(metrics, "histsvc_batches_total", {{"backend", "other"}, {"closed_by", "idle"}}),
      1000);
  EXPECT_EQ(
      Find(metrics, "histsvc_kernel_duration_seconds", {{"kernel", "other"}, {"backend", "cpu"}})
          ->histogram.sample_count,
      1000u);
  EXPECT_EQ(Counter(metrics, "histsvc_fallback_total",
                    {{"from", "other"}, {"to", "cpu"}, {"reason", "other"}}),
            1000);
  const auto families = metrics.Collect();
  EXPECT_EQ(FindFamily(families, "histsvc_backend_up")->metric.size(), 2u);
  EXPECT_LE(FindFamily(families, "histsvc_kernel_duration_seconds")->metric.size(), 4u);
}

TEST(ServerMetrics, EventsAreCounted) {
  ServerMetrics metrics(TwoBackends());
  metrics.Rejected(RejectReason::kCompressed);
  metrics.Rejected(RejectReason::kUnauthenticated);
  metrics.Expired();
  metrics.Cancelled();
  metrics.Cancelled();
  metrics.IntegrityFailure();
  metrics.FellBack("cuda:0", "cpu", "watchdog");
  EXPECT_EQ(Counter(metrics, "histsvc_rejected_total", {{"reason", "compressed"}}), 1);
  EXPECT_EQ(Counter(metrics, "histsvc_rejected_total", {{"reason", "unauthenticated"}}), 1);
  EXPECT_EQ(Counter(metrics, "histsvc_rejected_total", {{"reason", "queue_full"}}), 0);
  EXPECT_EQ(Counter(metrics, "histsvc_expired_total"), 1);
  EXPECT_EQ(Counter(metrics, "histsvc_cancelled_total"), 2);
  EXPECT_EQ(Counter(metrics, "histsvc_integrity_failures_total"), 1);
  EXPECT_EQ(Counter(metrics, "histsvc_fallback_total",
                    {{"from", "cuda:0"}, {"to", "cpu"}, {"reason", "watchdog"}}),
            1);
}

TEST(ServerMetrics, StreamsOpenAndClose) {
  ServerMetrics metrics(TwoBackends());
  metrics.StreamOpened(Method::kAccumulate);
  metrics.StreamOpened(Method::kAccumulate);
  std::jthread([&] { metrics.StreamClosed(Method::kAccumulate); }).join();  // on another shard
  EXPECT_EQ(Counter(metrics, "histsvc_streams_total", {{"method", "Accumulate"}}), 2);
  EXPECT_EQ(Gauge(metrics, "histsvc_streams_open", {{"method", "Accumulate"}}), 1);
  EXPECT_EQ(Gauge(metrics, "histsvc_streams_open", {{"method", "ComputeMany"}}), 0);
}

TEST(ServerMetrics, GaugesAreReadAtTheScrape) {
  ServerMetrics metrics(TwoBackends());
  EXPECT_EQ(Gauge(metrics, "histsvc_queue_bytes"), 0);
  Batcher::Snapshot now;
  metrics.SetSnapshotSource([&now] { return now; });
  now.queue_payloads = 3;
  now.queue_bytes = 4096;
  now.in_flight = 5;
  now.charged_bytes = 9000;
  now.waiting = 2;
  now.backends = {{"cuda:0", false, 4, 1}, {"cpu", true, 2, 2}, {"unheard-of", true, 1, 1}};
  EXPECT_EQ(Gauge(metrics, "histsvc_queue_payloads"), 3);
  EXPECT_EQ(Gauge(metrics, "histsvc_queue_bytes"), 4096);
  EXPECT_EQ(Gauge(metrics, "histsvc_in_flight"), 5);
  EXPECT_EQ(Gauge(metrics, "histsvc_charged_bytes"), 9000);
  EXPECT_EQ(Gauge(metrics, "histsvc_streams_paused"), 2);
  EXPECT_EQ(Gauge(metrics, "histsvc_lanes", {{"backend", "cuda:0"}, {"state", "busy"}}), 1);
  EXPECT_EQ(Gauge(metrics, "histsvc_lanes", {{"backend", "cuda:0"}, {"state", "free"}}), 3);
  EXPECT_EQ(Gauge(metrics, "histsvc_backend_up", {{"backend", "cuda:0"}}), 0);
  EXPECT_EQ(Gauge(metrics, "histsvc_backend_up", {{"backend", "cpu"}}), 1);
  EXPECT_EQ(Gauge(metrics, "histsvc_lanes", {{"backend", "unheard-of"}, {"state", "busy"}}), -1);
  metrics.SetSnapshotSource(nullptr);
  EXPECT_EQ(Gauge(metrics, "histsvc_queue_bytes"), 0);
}

TEST(ServerMetrics, ShowsWhatChoosesKernelsAndBackends) {
  ServerMetrics metrics(TwoBackends());
  const auto cost = [&](const char* backend, const char* kernel, const char* payload_bytes_max) {
    return Gauge(metrics, "histsvc_dispatch_batch_seconds",
                 {{"backend", backend},
                  {"kernel", kernel},
                  {"sample_type", "u8"},
                  {"bin_count_max", "65536"},
                  {"payload_bytes_max", payload_bytes_max},
                  {"payloads_max", "64"}});
  };
  EXPECT_DOUBLE_EQ(cost("cuda:0", "lane_private", "1048576"), 20e-6) << "the first of two rows";
  EXPECT_DOUBLE_EQ(cost("cpu", "tables8", "4096"), 1.5e-6);
  EXPECT_EQ(cost("cpu", "tables8", "any"), 0) << "not measured, but in the table";
  const auto families = metrics.Collect();
  EXPECT_EQ(FindFamily(families, "histsvc_dispatch_batch_seconds")->metric.size(), 3u);

  metrics.SetSnapshotSource([] {
    Batcher::Snapshot snapshot;
    snapshot.placements = {{4096, "cpu", "estimate", 0}, {UINT64_MAX, "cuda:0", "trial", 3}};
    return snapshot;
  });
  const auto placed = [&](const char* bytes_max, const char* backend, const char* reason) {
    return Gauge(metrics, "histsvc_placement_info",
                 {{"samples", "bytes"},
                  {"payload_bytes_max", bytes_max},
                  {"backend", backend},
                  {"reason", reason}});
  };
  EXPECT_EQ(placed("4096", "cpu", "estimate"), 1);
  EXPECT_EQ(placed("any", "cuda:0", "trial"), 1);
  EXPECT_EQ(placed("4096", "cuda:0", "trial"), -1);
  EXPECT_EQ(Counter(metrics, "histsvc_placement_switches_total",
                    {{"samples", "bytes"}, {"payload_bytes_max", "any"}}),
            3);
}

TEST(ServerMetrics, TellsWhatItIs) {
  ServerMetrics metrics(TwoBackends());
  EXPECT_EQ(Gauge(metrics, "histsvc_build_info",
                  {{"version", "0.1.0"},
                   {"commit", "abc1234"},
                   {"compiler", "GNU 12.2.0"},
                   {"cuda", "false"}}),
            1);
  EXPECT_EQ(Gauge(metrics, "histsvc_limit", {{"name", "payload_bytes_max"}}), 64 << 20);
  EXPECT_EQ(Gauge(metrics, "histsvc_limit", {{"name", "drain_max_seconds"}}), 30);
  EXPECT_EQ(Gauge(metrics, "histsvc_limit", {{"name", "drain_delay_seconds"}}), 3);
  EXPECT_EQ(Gauge(metrics, "histsvc_draining"), 0);
  metrics.SetDraining(true);
  EXPECT_EQ(Gauge(metrics, "histsvc_draining"), 1);
}

TEST(ServerMetrics, ReadyUntilTheServerDrains) {
  ServerMetrics metrics(TwoBackends());
  EXPECT_EQ(Gauge(metrics, "histsvc_ready"), 0) << "it starts";
  metrics.SetReady(true);
  EXPECT_EQ(Gauge(metrics, "histsvc_ready"), 1);
  metrics.SetDraining(true);
  EXPECT_EQ(Gauge(metrics, "histsvc_ready"), 0);
}

TEST(ServerMetrics, SelfProbesAreCountedAndTimed) {
  ServerMetrics metrics(TwoBackends());
  metrics.SelfProbed(true, 50000);
  metrics.SelfProbed(true, 150000);
  metrics.SelfProbed(false, 1500000000);
  EXPECT_EQ(Counter(metrics, "histsvc_self_probes_total", {{"outcome", "reached"}}), 2);
  EXPECT_EQ(Counter(metrics, "histsvc_self_probes_total", {{"outcome", "missed"}}), 1);
  const auto took = Find(metrics, "histsvc_self_probe_duration_seconds");
  ASSERT_TRUE(took);
  EXPECT_EQ(took->histogram.sample_count, 3u);
  EXPECT_DOUBLE_EQ(took->histogram.sample_sum, 1.5002);
}

TEST(ServerMetrics, TextIsEscapedAndHoldsEachHistogramsEnd) {
  ServerMetrics metrics(TwoBackends());
  metrics.StageFinished(Stage::kQueue, "cpu", 60000000000);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("device=\"NVIDIA \\\"H200\\\"\\n\""));
  EXPECT_THAT(text, HasSubstr("# TYPE histsvc_requests_total counter\n"));
  EXPECT_THAT(text,
              HasSubstr("histsvc_stage_duration_seconds_bucket{stage=\"queue\",backend=\"cpu\","
                        "le=\"+Inf\"} 1\n"));
}

// Recording and scraping at the same time: nothing is lost, and no scrape sees more than was
// recorded.
TEST(ServerMetrics, CountsExactlyWhileBeingScraped) {
  constexpr int kThreads = 4, kRequests = 5000;
  ServerMetrics metrics(TwoBackends());
  std::atomic<int> running{kThreads};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const BatchReport report = Report("cpu", "tables8");
      for (int i = 0; i < kRequests; ++i) {
        metrics.RequestFinished(Method::kCompute, absl::StatusCode::kOk, 100, 1000);
        metrics.BatchFinished(report, 100, ClosedBy::kInline);
      }
      running.fetch_sub(1);
    });
  }
  const Labels labels = {{"method", "Compute"}, {"code", "OK"}};
  double last = 0;
  while (running.load() > 0) {
    const double now = Counter(metrics, "histsvc_requests_total", labels);
    EXPECT_GE(now, last);
    EXPECT_LE(now, kThreads * kRequests);
    last = now;
  }
  threads.clear();
  EXPECT_EQ(Counter(metrics, "histsvc_requests_total", labels), kThreads * kRequests);
  EXPECT_EQ(Find(metrics, "histsvc_batch_bytes")->histogram.sample_sum,
            100.0 * kThreads * kRequests);
}

}  // namespace
}  // namespace histogram::server
