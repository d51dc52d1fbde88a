// Dispatch tables as text: what a tuning found, and for exactly which device and build.
//
// The format is lines of "word value", as FormatTuningTables writes them. Reading is strict: any
// other file is refused as a whole. Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_TUNING_TUNING_TABLE_H_
#define HISTOGRAM_KERNELS_TUNING_TUNING_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace histogram::tuning {

// All that a measured cost depends on. Parts that do not apply are empty or 0.
struct TuningKey {
  std::string backend;  // "cpu", "cuda": tables are shared by equal devices
  std::string device;   // "NVIDIA H200"
  std::string driver;
  std::string build;  // version and BuildId(): a rebuilt kernel is another kernel
  uint32_t multiprocessors = 0;
  std::string mig_profile;
  std::string mps_share;
  std::string cpu_model;
  uint64_t lane_bytes = 0;
  uint32_t lane_payloads = 0;

  friend bool operator==(const TuningKey&, const TuningKey&) = default;
};

struct TuningTable {
  TuningKey key;
  std::vector<KernelChoice> rows;  // `backend` of each row is the key's
};

// Line breaks and other control characters in names are written as spaces.
std::string FormatTuningTables(const std::vector<TuningTable>& tables);

// INVALID_ARGUMENT naming the line for anything that FormatTuningTables would not write.
absl::StatusOr<std::vector<TuningTable>> ParseTuningTables(std::string_view text);

// The name of the first part in which the keys differ ("driver"); empty where they are equal.
std::string FirstDifference(const TuningKey& a, const TuningKey& b);

// --- Files. Names carry a hash of the key, so that the tables of several devices share a
// directory.

std::string CacheFileName(const TuningKey& key);

// The rows cached for `key` in `directory`. NOT_FOUND where there are none, or where any part of
// the key stored with them differs; INVALID_ARGUMENT for a damaged file.
absl::StatusOr<std::vector<KernelChoice>> LoadFromCache(const std::string& directory,
                                                        const TuningKey& key);

// Writes the table into `directory`, which is made where its parent exists. Another process reads
// the old file or the new one, never half of either.
absl::Status SaveToCache(const std::string& directory, const TuningTable& table);

// All tables of a file made elsewhere. INVALID_ARGUMENT naming the path where it cannot be read.
absl::StatusOr<std::vector<TuningTable>> LoadTuningFile(const std::string& path);

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_TUNING_TABLE_H_
