#include "server/rpc/receive_guard.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_internals.h"
#include "server/rpc/peer_address.h"

namespace histogram::server {

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
void ReceiveGuard::ForEachReceiver(const See& see) {
  const uint64_t look = looks_.load(std::memory_order_relaxed);
  absl::MutexLock all(&mu_);
  for (Loop* loop : loops_) {
    const std::lock_guard lock(loop->mu_);
    for (Call* call = loop->first_; call != nullptr; call = call->next_) {
      const uint64_t since = call->since_.load(std::memory_order_relaxed);
      if (since == 0 || since + 1 >= look || call->ended()) continue;
      see(*call, Receiver{PeerOf(*call), since});
    }
  }
}

bool ReceiveGuard::EndedAreLeft() {
  absl::MutexLock all(&mu_);
  for (Loop* loop : loops_) {
    const std::lock_guard lock(loop->mu_);
    for (Call* call = loop->first_; call != nullptr; call = call->next_) {
      if (call->ended()) return true;
    }
  }
  return false;
}

ReceiveGuard::Ended ReceiveGuard::Look() {
  looks_.fetch_add(1, std::memory_order_relaxed);
  Ended ended;
  if (patience_ > 0) --patience_;
  ended.held_bytes = held_bytes_();
  if (ended.held_bytes <= bytes_max_ || (patience_ > 0 && EndedAreLeft())) return ended;

  std::unordered_map<uint64_t, std::vector<uint64_t>> since_of;
  ForEachReceiver(
      [&](Call&, Receiver receiver) { since_of[receiver.peer].push_back(receiver.since); });
  if (since_of.empty()) return ended;
  auto& [peer, since] = *std::max_element(
      since_of.begin(), since_of.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const size_t count = (since.size() + kEndedShare - 1) / kEndedShare;
  std::nth_element(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(count - 1),
                   since.end());
  const uint64_t youngest = since[count - 1];

  // gRPC must not be called with a lock that its callers on other threads wait for.
  std::vector<HeldCall> calls;
  ForEachReceiver([&, most = peer](Call& call, Receiver receiver) {
    if (receiver.peer != most || receiver.since > youngest || calls.size() == count) return;
    call.ended_.store(true, std::memory_order_relaxed);
    if (calls.empty()) ended.peer = PeerAddress(*call.context_);
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
