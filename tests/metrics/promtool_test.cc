// Prometheus's own checker over everything that is exported, where it is installed.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "server/metrics/server_metrics.h"
#include "tests/metrics/metrics_fixture.h"
#include "tests/test_path.h"

namespace histogram::server {
namespace {

struct CommandResult {
  int exit_code = -1;
  std::string output;
};

CommandResult RunCommand(const std::string& command) {
  CommandResult result;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    result.output.push_back(static_cast<char>(c));
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

CommandResult CheckMetrics(const std::string& text) {
  const std::string path = TestPath("metrics.prom");
  std::ofstream(path) << text;
  CommandResult result = RunCommand("promtool check metrics < '" + path + "'");
  return result;
}

TEST(Promtool, FindsNothingToComplainAbout) {
  if (RunCommand("promtool --version").exit_code != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian: apt-get install prometheus)";
  }
  ServerMetrics metrics(TwoBackends());
  metrics.RequestFinished(Method::kDescribe, absl::StatusCode::kAborted, 1, 1);
  BatchReport report;
  report.backend = "unheard-of";
  report.gather_ns = report.transfer_ns = report.kernel_ns = 12345;
  metrics.BatchFinished(report, 5000, ClosedBy::kDeadline);
  const CommandResult result = CheckMetrics(metrics.Text());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output, "");
}

TEST(Promtool, WouldComplainAboutAWrongName) {
  if (RunCommand("promtool --version").exit_code != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian: apt-get install prometheus)";
  }
  EXPECT_NE(CheckMetrics("# TYPE requests counter\nrequests 1\n").exit_code, 0);
}

}  // namespace
}  // namespace histogram::server
