// Caches the latest queries of many bins with their plans, in a bounded number of bytes.
//
// The request that makes a plan is charged for it. No request is charged for what the cache keeps.
#ifndef HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_
#define HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_

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
  std::shared_ptr<const Query> Find(std::string_view spec, const QueryLimits& limits);
  // Keeps the query, and drops the least recently used ones until the rest fits. Returns the query
  // to use: that of another thread if it was added first.
  std::shared_ptr<const Query> Add(std::string_view spec, const QueryLimits& limits,
                                   std::shared_ptr<const Query> query);
  // The bytes of all entries: specs, edges, and plans, made or not.
  uint64_t bytes() const;

 private:
  struct Entry {
    std::string spec;
    QueryLimits limits;
    std::shared_ptr<const Query> query;
    uint64_t bytes = 0;
  };

  std::shared_ptr<const Query> FindLocked(std::string_view spec, const QueryLimits& limits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t bytes_max_;
  mutable absl::Mutex mu_;
  std::list<Entry> entries_
      ABSL_GUARDED_BY(mu_);  // most recently used first; a few hundred at most
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_QUERY_CACHE_H_
