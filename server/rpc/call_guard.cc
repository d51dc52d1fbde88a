#include "server/rpc/call_guard.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "server/base/address.h"
#include "server/rpc/grpc_internals.h"

namespace histogram::server {

CallGuard::Loop::Loop(CallGuard& guard) : guard_(guard) {
  absl::MutexLock lock(&guard.mu_);
  guard.loops_.push_back(this);
}

CallGuard::Loop::~Loop() {
  absl::MutexLock lock(&guard_.mu_);
  guard_.loops_.remove(this);
}

void CallGuard::Call::Join(grpc::ServerContext& context) {
  const std::lock_guard lock(loop_.mu_);
  context_ = &context;
  next_ = std::exchange(loop_.first_, this);
  if (next_ != nullptr) next_->before_ = this;
}

void CallGuard::Call::Leave() {
  if (context_ == nullptr) return;
  held_ = 0;
  Share();
  totals_.LetGo(totals_.bytes());
  const std::lock_guard lock(loop_.mu_);
  context_ = nullptr;
  (before_ == nullptr ? loop_.first_ : before_->next_) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

bool CallGuard::Call::Hold(uint64_t bytes) {
  const MemoryClass& replies = ledger().replies;
  const uint64_t steps = (held_ + bytes) / kStep * kStep;
  const uint64_t shared = shared_.load(std::memory_order_relaxed);
  if (steps > shared && replies.bytes() + (steps - shared) > 2 * replies.limit()) return false;
  held_ += bytes;
  Share();
  return true;
}

bool CallGuard::Call::HoldTotals(uint64_t bytes) {
  if (!totals_.TryHold(bytes)) return false;
  if (Hold(bytes)) return true;
  totals_.LetGo(bytes);
  return false;
}

void CallGuard::Call::WriteBegun() {
  writing_ = true;
  if (shared_.load(std::memory_order_relaxed) == 0) return;
  writing_since_.store(loop_.guard_.clock_.Now(), std::memory_order_relaxed);
}

void CallGuard::Call::Written(uint64_t bytes) {
  writing_ = false;
  writing_since_.store(0, std::memory_order_relaxed);
  held_ -= bytes;
  Share();
}

void CallGuard::Call::Share() {
  const uint64_t steps = held_ / kStep * kStep;
  const uint64_t shared = shared_.load(std::memory_order_relaxed);
  if (steps == shared) return;
  shared_.store(steps, std::memory_order_relaxed);
  loop_.guard_.ledger_.replies.Add(steps - shared);  // modulo 2^64: may be less
  if (writing_ && shared == 0) WriteBegun();
}

// Asked of gRPC once for each call, and only where the process holds too much.
uint64_t CallGuard::PeerOf(Call& call) {
  uint64_t peer = call.peer_.load(std::memory_order_relaxed);
  if (peer != 0) return peer;
  const std::string uri = call.context_->peer();  // "ipv4:192.0.2.1:40000", "unix:"
  const size_t port = uri.find(':') == uri.rfind(':') ? std::string::npos : uri.rfind(':');
  peer = std::max<uint64_t>(1, absl::HashOf(uri.substr(0, port)));
  call.peer_.store(peer, std::memory_order_relaxed);
  return peer;
}

template <typename Choose>
CallGuard::Ended CallGuard::End(grpc::StatusCode code, const std::string& why,
                                const Choose& choose) {
  Ended ended;
  std::vector<HeldCall> chosen;
  {
    absl::MutexLock lock(&mu_);
    std::list<std::lock_guard<std::mutex>> locks;
    Calls calls;
    for (Loop* loop : loops_) {
      locks.emplace_back(loop->mu_);
      for (Call* call = loop->first_; call != nullptr; call = call->next_) calls.push_back(call);
    }
    for (Call* call : choose(calls)) {
      // gRPC forgets it with the call's end.
      if (chosen.empty()) ended.peer = PeerAddress(call->context_->peer());
      chosen.emplace_back(*call->context_);
    }
  }
  // Without the locks, for which the loops' threads wait: gRPC must not end a call under them.
  for (HeldCall& call : chosen) call.End(code, why);
  ended.calls = chosen.size();
  return ended;
}

CallGuard::Ended CallGuard::EndReceiving() {
  const uint64_t look = looks_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (patience_ > 0) --patience_;
  Ended ended;
  if (const uint64_t bytes = ledger_.receiving(); bytes > ledger_.receive_bytes_max) {
    ended =
        End(grpc::StatusCode::RESOURCE_EXHAUSTED,
            absl::StrCat("the server holds ", bytes, " bytes of unfinished messages; the limit is ",
                         ledger_.receive_bytes_max, " (receive_bytes_max); try again later"),
            [&](const Calls& calls) { return ChooseReceiving(calls, look); });
    ended.bytes = bytes;
    if (ended.calls > 0) patience_ = kPatience;
  }
  return ended;
}

CallGuard::Calls CallGuard::ChooseReceiving(const Calls& calls, uint64_t look) const {
  if (patience_ > 0 && absl::c_any_of(calls, [](const Call* call) { return call->ended(); })) {
    return {};
  }
  std::unordered_map<uint64_t, std::vector<std::pair<uint64_t, Call*>>> of_peer;  // by age
  for (Call* call : calls) {
    const uint64_t since = call->since_.load(std::memory_order_relaxed);
    if (since == 0 || since + 1 >= look || call->ended()) continue;
    of_peer[PeerOf(*call)].emplace_back(since, call);
  }
  if (of_peer.empty()) return {};
  auto& most = absl::c_max_element(of_peer, [](const auto& a, const auto& b) {
                 return a.second.size() < b.second.size();
               })->second;
  absl::c_sort(most);
  most.resize((most.size() + kEndedShare - 1) / kEndedShare);
  Calls chosen;
  for (const auto& [since, call] : most) {
    call->ended_.store(true, std::memory_order_relaxed);
    chosen.push_back(call);
  }
  return chosen;
}

CallGuard::Ended CallGuard::EndUnread() {
  if (ledger_.replies.bytes() == 0) return {};
  uint64_t bytes = 0;
  Ended ended = End(grpc::StatusCode::CANCELLED, "Cancelled on the server side",
                    [&](const Calls& calls) { return ChooseUnread(calls, bytes); });
  ended.bytes = bytes;
  return ended;
}

CallGuard::Calls CallGuard::ChooseUnread(const Calls& calls, uint64_t& bytes_of_chosen) const {
  struct Stalled {
    Call* call;
    uint64_t bytes, caller;
    TimeNs since;
  };
  const TimeNs now = clock_.Now();
  const uint64_t limit = ledger_.replies.limit();
  Calls chosen;
  const auto choose = [&](Call& call, uint64_t bytes) {
    call.unread_.store(true, std::memory_order_relaxed);
    chosen.push_back(&call);
    bytes_of_chosen += bytes;
  };
  std::vector<Stalled> stalled;
  std::unordered_map<uint64_t, uint64_t> bytes_of_caller;
  uint64_t left = 0, most = 0;
  for (Call* call : calls) {
    const uint64_t bytes = call->shared_.load(std::memory_order_relaxed);
    const uint64_t caller = call->caller_.load(std::memory_order_relaxed);
    const TimeNs since = call->writing_since_.load(std::memory_order_relaxed);
    if (bytes == 0 || call->unread()) continue;
    const auto patience = kWriteMax + static_cast<TimeNs>(bytes / kBytesPerSecondMin) * 1000000000;
    if (since != 0 && now - since > patience) {
      choose(*call, bytes);
      continue;
    }
    left += bytes;
    most = std::max(most, bytes_of_caller[caller] += bytes);
    if (since != 0 && now - since > kWriteMaxWhenFull) {
      stalled.push_back({call, bytes, caller, since});
    }
  }
  if (left <= limit) return chosen;
  absl::c_sort(stalled, [&](const Stalled& a, const Stalled& b) {
    return std::tuple(bytes_of_caller[b.caller], a.since) <
           std::tuple(bytes_of_caller[a.caller], b.since);
  });
  for (const Stalled& one : stalled) {
    // Never ends a call whose caller holds little, even to make room for a new one.
    if (left <= limit / 4 * 3 || bytes_of_caller[one.caller] < most / 2) break;
    choose(*one.call, one.bytes);
    left -= one.bytes;
  }
  return chosen;
}

}  // namespace histogram::server
