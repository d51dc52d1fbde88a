#include "server/request/query_cache.h"

#include <algorithm>

namespace histogram::server {
namespace {

uint64_t BytesOf(std::string_view spec, const Query& query) {
  uint64_t bytes = spec.size() + sizeof(Query) + query.quantiles.size() * sizeof(double);
  if (query.rows.has_value()) bytes += query.rows->lengths.size() * sizeof(uint64_t);
  // Edges that are stored came with the spec, and take as much again.
  bytes += spec.size();
  return bytes + (query.plan != nullptr ? query.plan->bytes() : 0);
}

}  // namespace

std::shared_ptr<const Query> QueryCache::Find(std::string_view spec, const QueryLimits& limits) {
  absl::MutexLock lock(&mu_);
  return FindLocked(spec, limits);
}

std::shared_ptr<const Query> QueryCache::Add(std::string_view spec, const QueryLimits& limits,
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

uint64_t QueryCache::bytes() const {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

std::shared_ptr<const Query> QueryCache::FindLocked(std::string_view spec,
                                                    const QueryLimits& limits) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.spec == spec && entry.limits == limits;
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->query;
}

}  // namespace histogram::server
