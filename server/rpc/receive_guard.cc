#include "server/rpc/receive_guard.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/rpc/grpc_internals.h"

namespace histogram::server {

std::string PeerAddress(const std::string& uri) {
  if (absl::StartsWith(uri, "unix")) return "unix";
  absl::string_view address = uri;
  if (!absl::ConsumePrefix(&address, "ipv4:")) absl::ConsumePrefix(&address, "ipv6:");
  return absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

ReceiveGuard::Loop::Loop(ReceiveGuard& guard) : guard_(guard) {
  absl::MutexLock lock(&guard.mu_);
  guard.loops_.push_back(this);
}

ReceiveGuard::Loop::~Loop() {
  absl::MutexLock lock(&guard_.mu_);
  guard_.loops_.remove(this);
}

void ReceiveGuard::Call::Join(grpc::ServerContext& context) {
  const std::lock_guard lock(loop_.mu_);
  context_ = &context;
  next_ = std::exchange(loop_.first_, this);
  if (next_ != nullptr) next_->before_ = this;
}

void ReceiveGuard::Call::Leave() {
  if (context_ == nullptr) return;
  const std::lock_guard lock(loop_.mu_);
  context_ = nullptr;
  (before_ == nullptr ? loop_.first_ : before_->next_) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

// Asked of gRPC once for each call, and only where the process holds too much.
uint64_t ReceiveGuard::PeerOf(Call& call) {
  uint64_t peer = call.peer_.load(std::memory_order_relaxed);
  if (peer != 0) return peer;
  const std::string uri = call.context_->peer();  // "ipv4:192.0.2.1:40000", "unix:"
  const size_t port = uri.find(':') == uri.rfind(':') ? std::string::npos : uri.rfind(':');
  peer = std::max<uint64_t>(1, absl::HashOf(uri.substr(0, port)));
  call.peer_.store(peer, std::memory_order_relaxed);
  return peer;
}

template <typename See>
void ReceiveGuard::ForEachCall(const See& see) {
  absl::MutexLock all(&mu_);
  for (Loop* loop : loops_) {
    const std::lock_guard lock(loop->mu_);
    for (Call* call = loop->first_; call != nullptr; call = call->next_) see(*call);
  }
}

ReceiveGuard::Ended ReceiveGuard::Look() {
  const uint64_t look = looks_.fetch_add(1, std::memory_order_relaxed) + 1;
  Ended ended;
  if (patience_ > 0) --patience_;
  ended.held_bytes = held_bytes_();
  if (ended.held_bytes <= bytes_max_) return ended;
  bool ended_are_left = false;
  if (patience_ > 0) {
    ForEachCall([&](const Call& call) { ended_are_left = ended_are_left || call.ended(); });
  }
  if (ended_are_left) return ended;

  // Since when a call receives, if that is before this Look; else 0.
  const auto receives_since = [look](const Call& call) {
    const uint64_t since = call.since_.load(std::memory_order_relaxed);
    return since + 1 < look && !call.ended() ? since : 0;
  };
  std::unordered_map<uint64_t, std::vector<uint64_t>> since_of;
  ForEachCall([&](Call& call) {
    if (const uint64_t since = receives_since(call)) since_of[PeerOf(call)].push_back(since);
  });
  if (since_of.empty()) return ended;
  auto& [most, begins] = *std::max_element(
      since_of.begin(), since_of.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const size_t count = (begins.size() + kEndedShare - 1) / kEndedShare;
  std::nth_element(begins.begin(), begins.begin() + static_cast<std::ptrdiff_t>(count - 1),
                   begins.end());
  const uint64_t youngest = begins[count - 1];

  // gRPC must not be called with a lock that its callers on other threads wait for.
  std::vector<HeldCall> calls;
  ForEachCall([&, most_peer = most](Call& call) {
    const uint64_t since = receives_since(call);
    if (since == 0 || since > youngest || calls.size() == count || PeerOf(call) != most_peer)
      return;
    call.ended_.store(true, std::memory_order_relaxed);
    if (calls.empty()) ended.peer = PeerAddress(call.context_->peer());
    calls.emplace_back(*call.context_);
  });
  for (HeldCall& call : calls) {
    call.End(grpc::StatusCode::RESOURCE_EXHAUSTED,
             absl::StrCat("the server holds ", ended.held_bytes,
                          " bytes of unfinished messages; the limit is ", bytes_max_,
                          " (receive_bytes_max); try again later"));
  }
  ended.calls = calls.size();
  if (ended.calls > 0) patience_ = kPatience;
  return ended;
}

}  // namespace histogram::server
