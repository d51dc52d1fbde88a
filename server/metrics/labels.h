// The values of metrics' labels, indexed by the enum that they name.
#ifndef HISTOGRAM_SERVER_METRICS_LABELS_H_
#define HISTOGRAM_SERVER_METRICS_LABELS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "server/base/observer.h"

namespace histogram::server {

// Stands for all undeclared values. It bounds the number of series.
inline constexpr std::string_view kOther = "other";

inline constexpr std::array<std::string_view, kRejectReasonCount> kRejectReasonNames = {
    "queue_full",        "payload_too_large", "bad_request", "too_many_bins",
    "draining",          "compressed",        "quota",       "unauthenticated",
    "headers_too_large", "receive_memory"};
inline constexpr std::array<std::string_view, kStageCount> kStageNames = {
    "queue", "gather", "transfer", "kernel", "fold", "reply"};
// The last one stands for every other reason.
inline constexpr std::array<std::string_view, 5> kFallbackReasonNames = {
    "device_lost", "watchdog", "out_of_memory", "error", kOther};
inline constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
// Whether a code, one that the API documents, is shown before it has occurred.
constexpr bool IsExpectedCode(size_t code) {
  return code == 0 || code == 1 || code == 3 || code == 4 || code == 8 || code == 13 || code == 14;
}

// A payload's size class is the first whose bound is >= its bytes. The last class has no bound.
inline constexpr std::array<uint64_t, 4> kSizeClassBounds = {uint64_t{4} << 10, uint64_t{64} << 10,
                                                             uint64_t{1} << 20, uint64_t{16} << 20};
inline constexpr std::array<std::string_view, 5> kSizeClassNames = {
    "le_4KiB", "le_64KiB", "le_1MiB", "le_16MiB", "gt_16MiB"};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_LABELS_H_
