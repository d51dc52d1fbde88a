// What the server's parts report to whoever watches (metrics). Implementations must be thread-safe,
// cheap (no lock, no allocation on the hot path) and must not call back.
#ifndef HISTOGRAM_SERVER_OBSERVER_H_
#define HISTOGRAM_SERVER_OBSERVER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/batch.h"

namespace histogram::server {

enum class Method : uint8_t { kCompute, kComputeMany, kAccumulate, kDescribe };
inline constexpr int kMethodCount = 4;

// Why a batch was closed.
enum class ClosedBy : uint8_t { kIdle, kBytes, kPayloads, kDelay, kDeadline, kInline };
inline constexpr int kClosedByCount = 6;

enum class RejectReason : uint8_t {
  kQueueFull, kPayloadTooLarge, kBadRequest, kTooManyBins, kDraining, kCompressed, kStreamLimit, kQuota,
  kUnauthenticated
};
inline constexpr int kRejectReasonCount = 9;

enum class Stage : uint8_t { kQueue, kGather, kTransfer, kKernel, kFold, kReply };
inline constexpr int kStageCount = 6;

class Observer {
 public:
  virtual ~Observer() = default;

  // A payload was answered (each item of a ComputeMany counts as one; an Accumulate as one).
  virtual void RequestFinished(Method, absl::StatusCode, uint64_t /*payload_bytes*/,
                               uint64_t /*duration_ns*/) {}
  virtual void StreamOpened(Method) {}
  virtual void StreamClosed(Method) {}
  virtual void BatchFinished(const BatchReport&, uint64_t /*bytes*/, ClosedBy) {}
  // Queue (per payload), fold and reply (per payload); gather, transfer and kernel come with the batch.
  virtual void StageFinished(Stage, std::string_view /*backend*/, uint64_t /*duration_ns*/) {}
  virtual void Rejected(RejectReason) {}
  virtual void Expired() {}    // dropped: its deadline had passed
  virtual void Cancelled() {}  // dropped: its caller went away
  // A batch ran on `to` because `from` could not ("device_lost", "watchdog", "out_of_memory" ...).
  virtual void FellBack(std::string_view /*from*/, std::string_view /*to*/, std::string_view /*reason*/) {}
  virtual void IntegrityFailure() {}
  virtual void BackendDown(std::string_view /*backend*/, std::string_view /*reason*/) {}

  // An observer that ignores everything.
  static Observer& None();
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_OBSERVER_H_
