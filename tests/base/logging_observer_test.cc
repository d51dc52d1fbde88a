// What an operator must see is logged, not too often, and everything is passed on.
#include "server/base/logging_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/batching/fake_clock.h"

namespace histogram::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class MockObserver : public Observer {
 public:
  MOCK_METHOD(void, RequestFinished, (Method, absl::StatusCode, uint64_t, uint64_t), (override));
  MOCK_METHOD(void, StreamOpened, (Method), (override));
  MOCK_METHOD(void, StreamClosed, (Method), (override));
  MOCK_METHOD(void, BatchFinished, (const BatchReport&, uint64_t, ClosedBy), (override));
  MOCK_METHOD(void, StageFinished, (Stage, std::string_view, uint64_t), (override));
  MOCK_METHOD(void, Rejected, (RejectReason), (override));
  MOCK_METHOD(void, EndedReceiving, (uint64_t, uint64_t, std::string_view), (override));
  MOCK_METHOD(void, Expired, (), (override));
  MOCK_METHOD(void, Cancelled, (), (override));
  MOCK_METHOD(void, FellBack, (std::string_view, std::string_view, std::string_view), (override));
  MOCK_METHOD(void, IntegrityFailure, (), (override));
  MOCK_METHOD(void, TenantBytes, (std::string_view, uint64_t), (override));
  MOCK_METHOD(void, NoteRequest, (const RequestNote&), (override));
  MOCK_METHOD(void, BackendDown, (std::string_view, std::string_view), (override));
  MOCK_METHOD(void, SelfProbed, (bool, uint64_t), (override));
};

TEST(LoggingObserver, PassesEverythingOn) {
  testing::StrictMock<MockObserver> next;
  const FakeClock clock;
  LoggingObserver observer(next, clock);
  EXPECT_CALL(next, RequestFinished(Method::kAccumulate, absl::StatusCode::kOk, 3, 4));
  EXPECT_CALL(next, StreamOpened(Method::kComputeMany));
  EXPECT_CALL(next, StreamClosed(Method::kAccumulate));
  EXPECT_CALL(next, BatchFinished(testing::_, 5, ClosedBy::kBytes));
  EXPECT_CALL(next, StageFinished(Stage::kFold, std::string_view("cpu"), 6));
  EXPECT_CALL(next, Rejected(RejectReason::kQuota));
  EXPECT_CALL(next, EndedReceiving(3, 100, "ipv4:192.0.2.1:4"));
  EXPECT_CALL(next, Expired());
  EXPECT_CALL(next, Cancelled());
  EXPECT_CALL(next, FellBack(std::string_view("a"), std::string_view("b"), std::string_view("c")));
  EXPECT_CALL(next, IntegrityFailure());
  EXPECT_CALL(next, TenantBytes(std::string_view("red"), 7));
  EXPECT_CALL(next, NoteRequest(testing::Field(&RequestNote::payload_bytes, 8)));
  EXPECT_CALL(next, BackendDown(std::string_view("a"), std::string_view("b")));
  EXPECT_CALL(next, SelfProbed(true, 9));
  CaptureStderr();
  observer.RequestFinished(Method::kAccumulate, absl::StatusCode::kOk, 3, 4);
  observer.StreamOpened(Method::kComputeMany);
  observer.StreamClosed(Method::kAccumulate);
  observer.BatchFinished(BatchReport(), 5, ClosedBy::kBytes);
  observer.StageFinished(Stage::kFold, "cpu", 6);
  observer.Rejected(RejectReason::kQuota);
  observer.EndedReceiving(3, 100, "ipv4:192.0.2.1:4");
  observer.Expired();
  observer.Cancelled();
  observer.FellBack("a", "b", "c");
  observer.IntegrityFailure();
  observer.TenantBytes("red", 7);
  const absl::Status bad = absl::InvalidArgumentError("bad");
  RequestNote note{.status = bad};
  note.payload_bytes = 8;
  observer.NoteRequest(note);
  observer.BackendDown("a", "b");
  observer.SelfProbed(true, 9);
  const std::string log = GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5) << log;
  EXPECT_THAT(log,
              AllOf(HasSubstr("calls=3 held_bytes=100 peer=ipv4:192.0.2.1:4\n"),
                    HasSubstr("backend=a reason=b"), HasSubstr("from=a to=b reason=c\n"),
                    HasSubstr("an answer was held back"), testing::Not(HasSubstr("suppressed"))));
}

TEST(LoggingObserver, NotesSayWhoCalledAndHowManyLinesWereSuppressed) {
  testing::NiceMock<MockObserver> next;
  FakeClock clock;
  LoggingObserver observer(next, clock);
  const absl::Status status = absl::CancelledError("gone");
  CaptureStderr();
  for (const TimeNs pause : {TimeNs{0}, TimeNs{1}, TimeNs{1}, LogThrottle::kShortPeriod}) {
    clock.AdvanceNs(pause);
    observer.NoteRequest({.method = Method::kCompute,
                          .status = status,
                          .payload_bytes = 7,
                          .duration_ns = 9000,
                          .peer = "192.0.2.1:40000"});
  }
  const std::string log = GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log,
              AllOf(HasSubstr("info  request failed method=Compute code=CANCELLED message=gone "
                              "payload_bytes=7 duration_us=9 peer=192.0.2.1:40000\n"),
                    HasSubstr("peer=192.0.2.1:40000 suppressed=2\n")));
}

}  // namespace
}  // namespace histogram::server
