// What an operator must see is logged, not too often.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/metrics/server_metrics.h"
#include "tests/batching/fake_clock.h"

namespace histogram::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

MetricsOptions OneBackend() {
  MetricsOptions options;
  options.backends.emplace_back().info.name = "a";
  return options;
}

TEST(ServerMetricsLog, HoldsWhatAnOperatorMustSee) {
  const FakeClock clock;
  ServerMetrics observer(OneBackend(), clock);
  const absl::Status bad = absl::InvalidArgumentError("bad");
  CaptureStderr();
  observer.StreamOpened(Method::kComputeMany);
  observer.EndedReceiving(3, 100, "ipv4:192.0.2.1:4");
  observer.FellBack("a", "b", "c");
  observer.IntegrityFailure();
  observer.RequestFinished({.status = bad});
  observer.BackendDown("a", "b");
  const std::string log = GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5) << log;
  EXPECT_THAT(log,
              AllOf(HasSubstr("calls=3 held_bytes=100 peer=ipv4:192.0.2.1:4\n"),
                    HasSubstr("backend=a reason=b"), HasSubstr("from=a to=b reason=c\n"),
                    HasSubstr("an answer was held back"), testing::Not(HasSubstr("suppressed"))));
}

TEST(ServerMetricsLog, NotesSayWhoCalledAndHowManyLinesWereSuppressed) {
  FakeClock clock;
  ServerMetrics observer(OneBackend(), clock);
  const absl::Status status = absl::CancelledError("gone");
  CaptureStderr();
  for (const TimeNs pause : {TimeNs{0}, TimeNs{1}, TimeNs{1}, LogThrottle::kShortPeriod}) {
    clock.AdvanceNs(pause);
    observer.RequestFinished(
        {.status = status, .payload_bytes = 7, .duration_ns = 9000, .peer = "ipv4:192.0.2.1:4"});
  }
  const std::string log = GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log,
              AllOf(HasSubstr("info  request failed method=Compute code=CANCELLED message=gone "
                              "payload_bytes=7 duration_us=9 peer=192.0.2.1:4\n"),
                    HasSubstr("peer=192.0.2.1:4 suppressed=2\n")));
}

}  // namespace
}  // namespace histogram::server
