// The reports of the server's parts to metrics and log. Implementations must be thread-safe, cheap
// (no allocation on the hot path, and no lock but that of a tenant's bytes) and must not call back.
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
struct MethodTraits {
  std::string_view name;
  bool carries_payloads, is_stream;
};
inline constexpr MethodTraits kMethodTraits[kMethodCount] = {  // by Method
    {"Compute", true, false},
    {"ComputeMany", true, true},
    {"Accumulate", true, true},
    {"Describe", false, false}};
inline constexpr const MethodTraits& TraitsOf(Method method) {
  return kMethodTraits[static_cast<size_t>(method)];
}
inline constexpr std::string_view MethodName(Method method) { return TraitsOf(method).name; }

// Why a batch was closed.
enum class ClosedBy : uint8_t { kIdle, kBytes, kPayloads, kInline };
inline constexpr int kClosedByCount = 4;
inline constexpr std::array<std::string_view, kClosedByCount> kClosedByNames = {
    "idle", "bytes", "payloads", "inline"};

enum class Stage : uint8_t { kQueue, kGather, kTransfer, kKernel, kFold, kReply };
inline constexpr int kStageCount = 6;

// A request that is over.
struct RequestNote {
  Method method = Method::kCompute;
  const absl::Status& status;
  uint64_t payload_bytes = 0;
  uint64_t duration_ns = 0;
  std::string_view traceparent{};  // W3C Trace Context; empty where none was sent
  std::string_view tenant{};       // empty where no tokens are configured
  std::string_view peer{};         // the caller's address, as gRPC writes it
};

// Every function is pure virtual: one that is forgotten does not compile.
class Observer {
 public:
  virtual ~Observer() = default;

  // A payload was answered, or refused (each item of a ComputeMany counts as one; an Accumulate as
  // one). The time of a stream's payload runs from the arrival of its last message to its answer.
  virtual void RequestFinished(const RequestNote& request) = 0;
  // Something else than a request was refused, such as the rest of a stream.
  virtual void Refused(const absl::Status& status) = 0;
  virtual void StreamOpened(Method method) = 0;
  virtual void StreamClosed(Method method) = 0;
  virtual void BatchFinished(const BatchReport& report, uint64_t bytes, ClosedBy closed_by) = 0;
  // A stage of one payload: queue, fold or reply. BatchFinished reports gather, transfer and
  // kernel.
  virtual void StageFinished(Stage stage, std::string_view backend, uint64_t duration_ns) = 0;
  // The call guard has ended calls whose messages are not finished, because the process holds
  // `held_bytes`. `peer`: the address of one of their clients.
  virtual void EndedReceiving(uint64_t calls, uint64_t held_bytes, std::string_view peer) = 0;
  virtual void Expired() = 0;    // dropped: its deadline had passed
  virtual void Cancelled() = 0;  // dropped: its caller went away
  // A batch goes to `to` because `from` failed it ("device_lost", "watchdog", "out_of_memory" ...).
  virtual void FellBack(std::string_view from, std::string_view to, std::string_view reason) = 0;
  virtual void IntegrityFailure() = 0;
  // Bytes of a tenant's payloads that were accepted, and of its replies; there are at most 64
  // tenants.
  virtual void TenantBytes(std::string_view tenant, uint64_t bytes) = 0;
  virtual void BackendDown(std::string_view backend, std::string_view reason) = 0;
  // The server asked one of its own ports, and waited `duration_ns` for the answer or in vain.
  virtual void SelfProbed(bool answered, uint64_t duration_ns) = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_OBSERVER_H_
