#include "server/rpc/unwritten_replies.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/rpc/receive_guard.h"

namespace histogram::server {

bool UnwrittenReplies::Call::Hold(uint64_t bytes) {
  const uint64_t steps = (held_ + bytes) / kStep * kStep;
  const uint64_t shared = shared_.load(std::memory_order_relaxed);
  if (steps > shared && all_.bytes() + (steps - shared) > 2 * all_.bytes_max_) return false;
  held_ += bytes;
  Share();
  return true;
}

bool UnwrittenReplies::Call::HoldTotals(uint64_t bytes) {
  if (all_.totals_.load(std::memory_order_relaxed) + bytes > all_.bytes_max_ / 2 || !Hold(bytes)) {
    return false;
  }
  all_.totals_.fetch_add(bytes, std::memory_order_relaxed);
  totals_ += bytes;
  return true;
}

void UnwrittenReplies::Call::LetGo(uint64_t bytes) {
  held_ -= bytes;
  Share();
}

void UnwrittenReplies::Call::WriteBegun() {
  writing_ = true;
  if (joined_) writing_since_.store(all_.clock_.Now(), std::memory_order_relaxed);
}

void UnwrittenReplies::Call::Written(uint64_t bytes) {
  writing_ = false;
  writing_since_.store(0, std::memory_order_relaxed);
  LetGo(bytes);
}

void UnwrittenReplies::Call::Share() {
  const uint64_t steps = held_ / kStep * kStep;
  const uint64_t shared = shared_.load(std::memory_order_relaxed);
  if (steps == shared) return;
  shared_.store(steps, std::memory_order_relaxed);
  all_.bytes_.fetch_add(steps - shared, std::memory_order_relaxed);  // modulo 2^64: may be less
  if (joined_) return;
  if (writing_) writing_since_.store(all_.clock_.Now(), std::memory_order_relaxed);
  joined_ = true;
  absl::MutexLock lock(&all_.mu_);
  all_.calls_.insert(this);
}

void UnwrittenReplies::Call::Leave() {
  LetGo(held_);
  // Most calls have none, and all calls share that number.
  if (totals_ > 0) all_.totals_.fetch_sub(std::exchange(totals_, 0), std::memory_order_relaxed);
  if (!joined_) return;
  joined_ = false;
  absl::MutexLock lock(&all_.mu_);
  all_.calls_.erase(this);
}

std::string UnwrittenReplies::CancelCall(grpc::ServerContext& context) {
  std::string peer = PeerAddress(context.peer());  // gRPC forgets it with the call's cancellation
  context.TryCancel();
  return peer;
}

UnwrittenReplies::Ended UnwrittenReplies::EndStalled() {
  struct Stalled {
    Call* call;
    uint64_t bytes;
    TimeNs since;
  };
  const TimeNs now = clock_.Now();
  Ended ended;
  absl::MutexLock lock(&mu_);
  const auto end = [this, &ended](Call& call, uint64_t bytes) {
    std::string peer = end_call_(*call.context_);
    if (ended.calls++ == 0) ended.peer = std::move(peer);
    ended.bytes += bytes;
    call.ended_ = true;
  };
  std::vector<Stalled> stalled;
  std::unordered_map<uint64_t, uint64_t> bytes_of_caller;
  uint64_t left = 0;
  for (Call* call : calls_) {
    const uint64_t bytes = call->shared_.load(std::memory_order_relaxed);
    const TimeNs since = call->writing_since_.load(std::memory_order_relaxed);
    if (call->ended_) continue;
    const auto patience = kWriteMax + static_cast<TimeNs>(bytes / kBytesPerSecondMin) * 1000000000;
    if (since != 0 && now - since > patience) {
      end(*call, bytes);
      continue;
    }
    left += bytes;
    bytes_of_caller[call->caller_] += bytes;
    if (since != 0 && now - since > kWriteMaxWhenFull) stalled.push_back({call, bytes, since});
  }
  if (left <= bytes_max_) return ended;
  std::sort(stalled.begin(), stalled.end(), [&](const Stalled& a, const Stalled& b) {
    return std::make_tuple(bytes_of_caller[b.call->caller_], a.since) <
           std::make_tuple(bytes_of_caller[a.call->caller_], b.since);
  });
  const uint64_t enough = bytes_max_ / 4 * 3;
  uint64_t most = 0;
  for (const auto& [caller, bytes] : bytes_of_caller) most = std::max(most, bytes);
  for (const Stalled& one : stalled) {
    // Never ends a call whose caller holds little, even to make room for a new one.
    if (left <= enough || bytes_of_caller[one.call->caller_] < most / 2) break;
    end(*one.call, one.bytes);
    left -= one.bytes;
  }
  return ended;
}

}  // namespace histogram::server
