// Caches the latest queries of many bins with their plans, in a bounded number of bytes.
//
// The request that makes a plan is charged for it. No request is charged for what the cache keeps.
#ifndef HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_
#define HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/request/query.h"

namespace histogram::server {

// Thread-safe.
class QueryCache {
 public:
  explicit QueryCache(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  QueryCache(const QueryCache&) = delete;
  QueryCache& operator=(const QueryCache&) = delete;

  // The query of this serialized spec under these limits; null if the cache does not have it.
  std::shared_ptr<const Query> Find(std::string_view spec, const QueryLimits& limits) {
    absl::MutexLock lock(&mu_);
    return FindLocked(spec, limits);
  }
  // Keeps the query, and drops the least recently used ones until the rest fits. Returns the query
  // to use: that of another thread if it was added first.
  std::shared_ptr<const Query> Add(std::string_view spec, const QueryLimits& limits,
                                   std::shared_ptr<const Query> query) {
    const uint64_t bytes = BytesOf(spec, *query);
    if (bytes > bytes_max_) return query;
    absl::MutexLock lock(&mu_);
    if (auto found = FindLocked(spec, limits); found != nullptr) return found;
    while (bytes > bytes_max_ - bytes_) {
      bytes_ -= entries_.back().bytes;
      entries_.pop_back();
    }
    entries_.push_front({std::string(spec), limits, query, bytes});
    bytes_ += bytes;
    return query;
  }
  // The bytes of all entries: specs, edges, and plans, made or not.
  uint64_t bytes() const {
    absl::MutexLock lock(&mu_);
    return bytes_;
  }

 private:
  struct Entry {
    std::string spec;
    QueryLimits limits;
    std::shared_ptr<const Query> query;
    uint64_t bytes = 0;
  };

  static uint64_t BytesOf(std::string_view spec, const Query& query) {
    uint64_t bytes = spec.size() + sizeof(Query) + query.quantiles.size() * sizeof(double);
    if (query.rows.has_value()) bytes += query.rows->lengths.size() * sizeof(uint64_t);
    // Edges that are stored came with the spec, and take as much again.
    bytes += spec.size();
    return bytes + query.plan->bytes();
  }
  std::shared_ptr<const Query> FindLocked(std::string_view spec, const QueryLimits& limits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.spec == spec && entry.limits == limits;
    });
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return found->query;
  }

  const uint64_t bytes_max_;
  mutable absl::Mutex mu_;
  std::list<Entry> entries_
      ABSL_GUARDED_BY(mu_);  // most recently used first; a few hundred at most
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_
