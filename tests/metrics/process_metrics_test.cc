// The process_ metrics, from a fixed text and from this very process.
#include "server/metrics/process_metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "tests/metrics/metrics_fixture.h"

namespace histogram::server {
namespace {

TEST(ParseProcessStat, ReadsPastAnyCommandName) {
  const auto stat = ParseProcessStat(
      "12 (a ) 7 (b) S 1 2 3 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 123456 10485760 512 "
      "18446744073709551615 1 1\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->user_ticks, 250u);
  EXPECT_EQ(stat->system_ticks, 50u);
  EXPECT_EQ(stat->start_ticks, 123456u);
  EXPECT_EQ(stat->virtual_bytes, 10485760u);
  EXPECT_EQ(stat->resident_pages, 512u);
  EXPECT_FALSE(ParseProcessStat(""));
  EXPECT_FALSE(ParseProcessStat("12 (x) S 1 2"));
  EXPECT_FALSE(ParseProcessStat("12 (x) S a b c"));
}

TEST(ProcessMetrics, DescribeThisProcess) {
  const ProcessMetrics metrics;
  EXPECT_GE(Counter(metrics, "process_cpu_seconds_total"), 0);
  EXPECT_GT(Gauge(metrics, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Gauge(metrics, "process_virtual_memory_bytes"),
            Gauge(metrics, "process_resident_memory_bytes"));
  EXPECT_GT(Gauge(metrics, "process_max_fds"), 2);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(Gauge(metrics, "process_start_time_seconds"), now + 2);
  EXPECT_GT(Gauge(metrics, "process_start_time_seconds"), now - 3600);
}

TEST(ProcessMetrics, CountsOpenFiles) {
  const ProcessMetrics metrics;
  const double before = Gauge(metrics, "process_open_fds");
  std::vector<int> files;
  for (int i = 0; i < 10; ++i) files.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), before + 10);
  for (const int file : files) close(file);
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), before);
}

TEST(ProcessMetrics, LeavesOutWhatCannotBeRead) {
  const ProcessMetrics metrics("/nonexistent");
  EXPECT_EQ(Counter(metrics, "process_cpu_seconds_total"), -1);
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), -1);
  EXPECT_GT(Gauge(metrics, "process_max_fds"), 2);
}

}  // namespace
}  // namespace histogram::server
