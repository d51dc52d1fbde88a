// What the server's parts report to whoever watches (metrics). Implementations must be thread-safe,
// cheap (no lock, no allocation on the hot path) and must not call back.
#ifndef HISTOGRAM_SERVER_BASE_OBSERVER_H_
#define HISTOGRAM_SERVER_BASE_OBSERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/batch.h"

namespace histogram::server {

enum class Method : uint8_t { kCompute, kComputeMany, kAccumulate, kDescribe };
inline constexpr int kMethodCount = 4;
inline constexpr std::array<std::string_view, kMethodCount> kMethodNames = {
    "Compute", "ComputeMany", "Accumulate", "Describe"};
inline constexpr std::string_view MethodName(Method method) {
  return kMethodNames[static_cast<size_t>(method)];
}

// Why a batch was closed.
enum class ClosedBy : uint8_t { kIdle, kBytes, kPayloads, kDelay, kDeadline, kInline };
inline constexpr int kClosedByCount = 6;

enum class RejectReason : uint8_t {
  kQueueFull,
  kPayloadTooLarge,
  kBadRequest,
  kTooManyBins,
  kDraining,
  kCompressed,
  kStreamLimit,
  kQuota,
  kUnauthenticated
};
inline constexpr int kRejectReasonCount = 9;

enum class Stage : uint8_t { kQueue, kGather, kTransfer, kKernel, kFold, kReply };
inline constexpr int kStageCount = 6;

// A request that failed, or took longer than the configuration puts up with.
struct RequestNote {
  Method method = Method::kCompute;
  const absl::Status& status;
  uint64_t payload_bytes = 0;
  uint64_t duration_ns = 0;
  std::string_view traceparent;  // W3C Trace Context; empty where none was sent
  std::string_view tenant;       // empty where no tokens are configured
};

class Observer {
 public:
  virtual ~Observer() = default;

  // A payload was answered (each item of a ComputeMany counts as one; an Accumulate as one).
  virtual void RequestFinished(Method, absl::StatusCode, uint64_t /*payload_bytes*/,
                               uint64_t /*duration_ns*/) {}
  virtual void StreamOpened(Method) {}
  virtual void StreamClosed(Method) {}
  virtual void BatchFinished(const BatchReport&, uint64_t /*bytes*/, ClosedBy) {}
  // Queue (per payload), fold and reply (per payload); gather, transfer and kernel come with the
  // batch.
  virtual void StageFinished(Stage, std::string_view /*backend*/, uint64_t /*duration_ns*/) {}
  virtual void Rejected(RejectReason) {}
  virtual void Expired() {}    // dropped: its deadline had passed
  virtual void Cancelled() {}  // dropped: its caller went away
  // A batch ran on `to` because `from` could not ("device_lost", "watchdog", "out_of_memory" ...).
  virtual void FellBack(std::string_view /*from*/, std::string_view /*to*/,
                        std::string_view /*reason*/) {}
  virtual void IntegrityFailure() {}
  // Payload bytes that were taken from a tenant's quota; there are at most 64 tenants.
  virtual void TenantBytes(std::string_view /*tenant*/, uint64_t /*bytes*/) {}
  virtual void NoteRequest(const RequestNote&) {}  // for the log
  virtual void BackendDown(std::string_view /*backend*/, std::string_view /*reason*/) {}

  // An observer that ignores everything.
  static Observer& None();
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_OBSERVER_H_
