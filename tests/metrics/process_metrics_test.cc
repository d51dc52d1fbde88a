// The process_ metrics, of this very process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <vector>

#include "tests/metrics/metrics_fixture.h"

namespace histogram::server {
namespace {

TEST(ProcessMetrics, DescribeThisProcess) {
  const ServerMetrics metrics(TwoBackends());
  while (std::clock() < CLOCKS_PER_SEC / 50) continue;  // until it has taken some
  EXPECT_GE(Counter(metrics, "process_cpu_seconds_total"), 0.019);
  EXPECT_LE(Counter(metrics, "process_cpu_seconds_total"), 3600);
  EXPECT_GT(Gauge(metrics, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Gauge(metrics, "process_virtual_memory_bytes"),
            Gauge(metrics, "process_resident_memory_bytes"));
  EXPECT_GT(Gauge(metrics, "process_max_fds"), 2);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(Gauge(metrics, "process_start_time_seconds"), now);
  EXPECT_GT(Gauge(metrics, "process_start_time_seconds"), now - 3600);
}

TEST(ProcessMetrics, CountsOpenFiles) {
  const ServerMetrics metrics(TwoBackends());
  const double before = Gauge(metrics, "process_open_fds");
  std::vector<int> files;
  for (int i = 0; i < 10; ++i) files.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), before + 10);
  for (const int file : files) close(file);
  EXPECT_EQ(Gauge(metrics, "process_open_fds"), before);
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
  const double open = Gauge(metrics, "process_open_fds");
  const double resident = Gauge(metrics, "process_resident_memory_bytes");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(found, families);
  EXPECT_GT(open, 3);
  EXPECT_GT(resident, 1 << 20);
}

}  // namespace
}  // namespace histogram::server
