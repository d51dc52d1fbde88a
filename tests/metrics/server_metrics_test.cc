// What is recorded comes out under the documented names, labels and units; labels stay bounded.
#include "server/metrics/server_metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/error.h"

namespace histogram::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A CPU and a GPU.
MetricsOptions TwoBackends(const ServerState& state = {}) {
  MetricsOptions options;
  options.state = [state] { return state; };
  const auto add = [&](const char* name, std::initializer_list<const char*> kernels) {
    auto& backend = options.backends.emplace_back();
    backend.info.name = name;
    for (const char* kernel : kernels) backend.kernels.emplace_back().name = kernel;
  };
  add("cuda:0", {"lane_private", "naive"});
  add("cpu", {"scalar", "tables8"});
  options.backends[0].info.device = "NVIDIA \"H200\"\n";
  options.build = {"0.1.0", "abc1234", "GNU 12.2.0", "Release"};
  return options;
}

// The value of a series as a scrape shows it, `name{label="value",...}`; -1 where there is none.
double Value(const ServerMetrics& from, const std::string& series) {
  const std::string text = "\n" + from.Text(), line = "\n" + series + " ";
  const size_t at = text.find(line);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + line.size(), nullptr);
}

BatchReport Report(const std::string& backend, const std::string& kernel, uint32_t payloads = 1) {
  BatchReport report;
  report.backend = backend;
  report.kernel = kernel;
  report.payloads = payloads;
  report.kernel_ns = 3000;
  return report;
}

double Own(const ServerMetrics& metrics, const std::string& series) {
  return Value(metrics, "histsvc_" + series);
}

// How many series of this name a scrape shows.
size_t CountSeries(const ServerMetrics& metrics, const std::string& name) {
  const std::vector<std::string> lines = absl::StrSplit(metrics.Text(), '\n');
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
    return absl::StartsWith(line, absl::StrCat("histsvc_", name, "{"));
  }));
}

TEST(ServerMetrics, EachFamilyIsThereOnceWithSeriesAndHelp) {
  std::set<std::string> names;
  for (const auto& family : ServerMetrics(TwoBackends()).Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_TRUE(!family.metric.empty() || absl::StrContains(family.name, "placement") ||
                absl::StrContains(family.name, "kernel") || family.name == "histsvc_backend_up" ||
                family.name == "histsvc_lanes")
        << family.name;
  }
  EXPECT_GT(names.size(), 30U);
}

TEST(ServerMetrics, KnownSeriesExistAtZero) {
  const ServerMetrics metrics(TwoBackends());
  for (const char* const series :
       {R"(requests_total{method="Compute",code="RESOURCE_EXHAUSTED"})",
        R"(rejected_total{reason="queue_full"})",
        R"(fallback_total{from="cuda:0",to="cpu",reason="device_lost"})",
        R"(batches_total{backend="cpu",closed_by="inline"})", "integrity_failures_total",
        R"(stage_duration_seconds_count{stage="transfer",backend="cuda:0"})"}) {
    EXPECT_EQ(Own(metrics, series), 0) << series;
  }
  // A kernel is shown once it has run.
  EXPECT_EQ(Own(metrics, R"(kernel_duration_seconds_count{kernel="scalar",backend="cpu"})"), -1);
}

TEST(ServerMetrics, RequestsAreCountedByMethodCodeAndSize) {
  ServerMetrics metrics(TwoBackends());
  const absl::Status ok, bad = absl::InternalError("bad");
  metrics.RequestFinished({Method::kCompute, ok, 4096, 1000000000});
  metrics.RequestFinished({Method::kCompute, ok, 4097, 1000000001});
  metrics.RequestFinished({Method::kComputeMany, bad, 1 << 20, 1});
  metrics.RequestFinished({Method::kAccumulate, ok, uint64_t{1} << 40, 60000000000});
  EXPECT_EQ(Own(metrics, R"(requests_total{method="Compute",code="OK"})"), 2);
  EXPECT_EQ(Own(metrics, R"(requests_total{method="ComputeMany",code="INTERNAL"})"), 1);
  const auto duration = [&](const std::string& what, const std::string& labels) {
    return Own(metrics, "request_duration_seconds_" + what + "{" + labels + "}");
  };
  const std::string small = R"(method="Compute",size_class="le_4KiB")";
  EXPECT_EQ(duration("count", small), 1);
  EXPECT_EQ(duration("sum", small), 1);
  EXPECT_EQ(duration("bucket", small + R"(,le="+Inf")"), 1);
  EXPECT_EQ(duration("count", R"(method="Compute",size_class="le_64KiB")"), 1);
  const std::string largest = R"(method="Accumulate",size_class="gt_16MiB")";
  EXPECT_EQ(duration("count", largest), 1);
  EXPECT_EQ(Own(metrics, "payload_bytes_count"), 4);
  EXPECT_EQ(Own(metrics, R"(payload_bytes_bucket{le="256"})"), 0);
  EXPECT_EQ(Own(metrics, R"(payload_bytes_bucket{le="4096"})"), 1);
  EXPECT_EQ(Own(metrics, R"(payload_bytes_bucket{le="1073741824"})"), 3);
  // From 50 us to more than ten seconds, which a minute is beyond.
  for (const auto& family : metrics.Collect()) {
    if (family.name != "histsvc_request_duration_seconds") continue;
    const auto& histogram = family.metric.back().histogram;
    EXPECT_EQ(histogram.bucket.front().upper_bound, 50e-6);
    EXPECT_GE(histogram.bucket.back().upper_bound, 10);
  }
}

TEST(ServerMetrics, UnusualCodesAndMethodsAppearOnceTheyHappen) {
  ServerMetrics metrics(TwoBackends());
  const std::string describe = R"(requests_total{method="Describe",code="OK"})";
  const std::string unknown = R"(requests_total{method="Compute",code="UNKNOWN"})";
  EXPECT_EQ(Own(metrics, describe), -1);
  EXPECT_EQ(Own(metrics, unknown), -1);
  metrics.RequestFinished({Method::kDescribe, absl::OkStatus(), 0, 1000});
  for (const int code : {99, -1}) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "");
    metrics.RequestFinished({Method::kCompute, status, 0, 1000});
  }
  EXPECT_EQ(Own(metrics, describe), 1);
  EXPECT_EQ(Own(metrics, unknown), 2);
}

TEST(ServerMetrics, BatchesAreCountedWithTheirStages) {
  ServerMetrics metrics(TwoBackends());
  BatchReport gpu = Report("cuda:0", "lane_private", 64);
  gpu.gather_ns = 1000;
  gpu.transfer_ns = 2000;
  metrics.BatchFinished(gpu, 1 << 20, ClosedBy::kPayloads);
  metrics.BatchFinished(Report("cpu", "scalar"), 100, ClosedBy::kInline);
  metrics.StageFinished(Stage::kQueue, "cpu", 5000);
  EXPECT_EQ(Own(metrics, R"(batches_total{backend="cuda:0",closed_by="payloads"})"), 1);
  EXPECT_EQ(Own(metrics, R"(batches_total{backend="cpu",closed_by="inline"})"), 1);
  const auto stage = [&](const std::string& what, const std::string& labels) {
    return Own(metrics, "stage_duration_seconds_" + what + "{" + labels + "}");
  };
  EXPECT_EQ(stage("count", R"(stage="gather",backend="cuda:0")"), 1);
  EXPECT_DOUBLE_EQ(stage("sum", R"(stage="transfer",backend="cuda:0")"), 2e-6);
  EXPECT_EQ(stage("count", R"(stage="gather",backend="cpu")"), 0);  // it has none
  EXPECT_EQ(stage("count", R"(stage="kernel",backend="cpu")"), 1);
  EXPECT_DOUBLE_EQ(stage("sum", R"(stage="kernel",backend="cpu")"), 3e-6);
  EXPECT_EQ(stage("count", R"(stage="queue",backend="cpu")"), 1);
  EXPECT_EQ(Own(metrics, R"(kernel_duration_seconds_count{kernel="scalar",backend="cpu"})"), 1);
  EXPECT_EQ(Own(metrics, "batch_payloads_sum"), 65);
  EXPECT_EQ(Own(metrics, "batch_bytes_sum"), (1 << 20) + 100);
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
  EXPECT_EQ(Own(metrics, R"(batches_total{backend="other",closed_by="idle"})"), 1000);
  EXPECT_EQ(Own(metrics, R"(kernel_duration_seconds_count{kernel="other",backend="cpu"})"), 1000);
  EXPECT_EQ(Own(metrics, R"(fallback_total{from="other",to="cpu",reason="other"})"), 1000);
  EXPECT_LE(CountSeries(metrics, "kernel_duration_seconds_count"), 4U);
}

TEST(ServerMetrics, EventsAreCounted) {
  ServerMetrics metrics(TwoBackends());
  const auto refused = [](absl::StatusCode code, const char* reason) {
    return MakeError(code, "refused", {.reason = reason});
  };
  metrics.Refused(refused(absl::StatusCode::kUnimplemented, "COMPRESSED_MESSAGE"));
  metrics.RequestFinished({.status = refused(absl::StatusCode::kInvalidArgument, "TOO_MANY_BINS")});
  metrics.RequestFinished({.status = absl::InvalidArgumentError("bad")});
  metrics.RequestFinished({.status = absl::InternalError("bad")});  // no refusal
  metrics.Expired();
  metrics.Cancelled();
  metrics.Cancelled();
  metrics.IntegrityFailure();
  metrics.FellBack("cuda:0", "cpu", "watchdog");
  metrics.SelfProbed(true, 50000);
  metrics.SelfProbed(true, 150000);
  metrics.SelfProbed(false, 1500000000);
  metrics.StreamOpened(Method::kAccumulate);
  metrics.StreamOpened(Method::kAccumulate);
  std::jthread([&] { metrics.StreamClosed(Method::kAccumulate); }).join();  // on another shard
  EXPECT_EQ(Own(metrics, R"(rejected_total{reason="compressed"})"), 1);
  EXPECT_EQ(Own(metrics, R"(rejected_total{reason="too_many_bins"})"), 1);
  EXPECT_EQ(Own(metrics, R"(rejected_total{reason="bad_request"})"), 1);
  EXPECT_EQ(Own(metrics, R"(rejected_total{reason="queue_full"})"), 0);
  EXPECT_EQ(Own(metrics, "expired_total"), 1);
  EXPECT_EQ(Own(metrics, "cancelled_total"), 2);
  EXPECT_EQ(Own(metrics, "integrity_failures_total"), 1);
  EXPECT_EQ(Own(metrics, R"(fallback_total{from="cuda:0",to="cpu",reason="watchdog"})"), 1);
  EXPECT_EQ(Own(metrics, R"(self_probes_total{outcome="reached"})"), 2);
  EXPECT_EQ(Own(metrics, R"(self_probes_total{outcome="missed"})"), 1);
  EXPECT_EQ(Own(metrics, "self_probe_duration_seconds_count"), 3);
  EXPECT_DOUBLE_EQ(Own(metrics, "self_probe_duration_seconds_sum"), 1.5002);
  EXPECT_EQ(Own(metrics, R"(streams_total{method="Accumulate"})"), 2);
  EXPECT_EQ(Own(metrics, R"(streams_open{method="Accumulate"})"), 1);
  EXPECT_EQ(Own(metrics, R"(streams_open{method="ComputeMany"})"), 0);
}

TEST(ServerMetrics, GaugesAreReadAtTheScrape) {
  ServerState state;
  Batcher::Snapshot& now = state.batcher;
  now.queue_payloads = 3;
  now.queue_bytes = 4096;
  now.in_flight = 5;
  now.charged_bytes = 9000;
  now.waiting = 2;
  now.backends = {{"cuda:0", false, 4, 1}, {"cpu", true, 2, 2}};
  const ServerMetrics metrics(TwoBackends(state));
  EXPECT_EQ(Own(metrics, "queue_payloads"), 3);
  EXPECT_EQ(Own(metrics, "queue_bytes"), 4096);
  EXPECT_EQ(Own(metrics, "in_flight"), 5);
  EXPECT_EQ(Own(metrics, "charged_bytes"), 9000);
  EXPECT_EQ(Own(metrics, "streams_paused"), 2);
  EXPECT_EQ(Own(metrics, R"(lanes{backend="cuda:0",state="busy"})"), 1);
  EXPECT_EQ(Own(metrics, R"(lanes{backend="cuda:0",state="free"})"), 3);
  EXPECT_EQ(Own(metrics, R"(backend_up{backend="cuda:0"})"), 0);
  EXPECT_EQ(Own(metrics, R"(backend_up{backend="cpu"})"), 1);
}

TEST(ServerMetrics, ShowsWhatChoosesBackends) {
  ServerState state;
  state.batcher.placements = {{4096, "cpu", "estimate", 0}, {UINT64_MAX, "cuda:0", "trial", 3}};
  const ServerMetrics metrics(TwoBackends(state));
  const std::string of_bytes = R"({samples="bytes",payload_bytes_max=)";
  EXPECT_EQ(
      Own(metrics, "placement_info" + of_bytes + R"("4096",backend="cpu",reason="estimate"})"), 1);
  EXPECT_EQ(Own(metrics, "placement_info" + of_bytes + R"("any",backend="cuda:0",reason="trial"})"),
            1);
  EXPECT_EQ(CountSeries(metrics, "placement_info"), 2U);
  EXPECT_EQ(Own(metrics, "placement_switches_total" + of_bytes + R"("any"})"), 3);
}

TEST(ServerMetrics, TellsWhatItIsAndWhetherItIsReady) {
  const ServerMetrics metrics(TwoBackends({{}, true, true, 7, 5}));
  EXPECT_EQ(Own(metrics,
                "build_info{version=\"0.1.0\",commit=\"abc1234\","
                "compiler=\"GNU 12.2.0\",cuda=\"false\"}"),
            1);
  EXPECT_EQ(Own(metrics, R"(limit{name="payload_bytes_max"})"), 64 << 20);
  EXPECT_EQ(Own(metrics, R"(limit{name="drain_max_seconds"})"), 30);
  EXPECT_EQ(Own(metrics, "ready"), 1);
  EXPECT_EQ(Own(metrics, "draining"), 1);
  EXPECT_EQ(Own(metrics, "unwritten_reply_bytes"), 7);
  EXPECT_EQ(Own(metrics, "unread_calls_total"), 5);
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
        metrics.RequestFinished({Method::kCompute, absl::OkStatus(), 100, 1000});
        metrics.BatchFinished(report, 100, ClosedBy::kInline);
      }
      running.fetch_sub(1);
    });
  }
  const std::string requests = R"(requests_total{method="Compute",code="OK"})";
  double last = 0;
  while (running.load() > 0) {
    const double now = Own(metrics, requests);
    EXPECT_GE(now, last);
    EXPECT_LE(now, kThreads * kRequests);
    last = now;
  }
  threads.clear();
  EXPECT_EQ(Own(metrics, requests), kThreads * kRequests);
  EXPECT_EQ(Own(metrics, "batch_bytes_sum"), 100.0 * kThreads * kRequests);
}

TEST(ProcessMetrics, DescribeThisProcess) {
  const ServerMetrics metrics(TwoBackends());
  while (std::clock() < CLOCKS_PER_SEC / 50) continue;  // until it has taken some
  EXPECT_GE(Value(metrics, "process_cpu_seconds_total"), 0.019);
  EXPECT_LE(Value(metrics, "process_cpu_seconds_total"), 3600);
  EXPECT_GT(Value(metrics, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Value(metrics, "process_virtual_memory_bytes"),
            Value(metrics, "process_resident_memory_bytes"));
  EXPECT_GT(Value(metrics, "process_max_fds"), 2);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(Value(metrics, "process_start_time_seconds"), now);
  EXPECT_GT(Value(metrics, "process_start_time_seconds"), now - 3600);
}

TEST(ProcessMetrics, CountsOpenFiles) {
  const ServerMetrics metrics(TwoBackends());
  const double before = Value(metrics, "process_open_fds");
  std::vector<int> files;
  for (int i = 0; i < 10; ++i) files.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Value(metrics, "process_open_fds"), before + 10);
  for (const int file : files) close(file);
  EXPECT_EQ(Value(metrics, "process_open_fds"), before);
}

TEST(ProcessMetrics, AreAllThereWhenDescriptorsHaveRunOut) {
  const ServerMetrics metrics(TwoBackends());
  const rlimit before = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit;
  }();
  const rlimit none{0, before.rlim_max};
  const size_t families = metrics.Collect().size();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const size_t found = metrics.Collect().size();
  const double open = Value(metrics, "process_open_fds");
  const double resident = Value(metrics, "process_resident_memory_bytes");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(found, families);
  EXPECT_GT(open, 3);
  EXPECT_GT(resident, 1 << 20);
}

}  // namespace
}  // namespace histogram::server
