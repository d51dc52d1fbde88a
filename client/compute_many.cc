#include <histogram/client.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/codec.h"
#include "client/stream_call.h"

namespace histogram::client {
namespace {

using PayloadStream = StreamCall<v1::ComputeManyResponse>;

// A payload that was asked for and has no answer yet.
struct Pending {
  Item item;  // without its payload
  grpc::Slice payload;
};

// Runs one ComputeMany, over as many streams as it takes. On the wire payloads are numbered from 1,
// so that the caller's ids may repeat.
class ManyCall {
 public:
  ManyCall(const std::function<std::optional<Item>()>& next,
           const std::function<void(ItemResult)>& on_result, const ManyOptions& options)
      : next_(next), on_result_(on_result), options_(options) {}

  // Over one stream, until all are answered or it ends. `impl`: the Client's.
  absl::Status RunStream(const auto& impl, absl::Time deadline) {
    unsent_.clear();
    for (const auto& [number, pending] : pending_) unsent_.push_back(number);
    answered_ = 0;
    PayloadStream stream(impl, kComputeManyMethod, options_.call, deadline);
    while (true) {
      if (stream.MayWrite()) WriteNext(stream);
      const PayloadStream::Event event = stream.Wait();
      if (event == PayloadStream::Event::kEnded) break;
      if (event != PayloadStream::Event::kRead) continue;
      if (absl::Status status = Answer(stream.response()); !status.ok()) return status;
    }
    absl::Status status = stream.Finish();
    if (status.ok() && (!pending_.empty() || !stream.writes_done())) {
      return absl::InternalError("the server ended the stream without answering every payload");
    }
    return status;
  }

  void FailPending(const absl::Status& status) {
    auto failed = std::exchange(pending_, {});
    for (auto& [number, pending] : failed) on_result_({pending.item.id, status});
  }

  bool answered_any() const { return answered_ > 0; }

 private:
  // Starts the next write. With nothing to write now it waits for answers (and starts nothing),
  // with nothing to write ever it half-closes.
  void WriteNext(PayloadStream& stream) {
    if (unsent_.empty() && !exhausted_) {
      const bool room = pending_.empty() || (pending_.size() < options_.in_flight_max &&
                                             pending_bytes_ < options_.in_flight_bytes_max);
      if (!room) return;
      Pull();
    }
    if (unsent_.empty()) return stream.WritesDone();
    const uint64_t number = unsent_.front();
    unsent_.pop_front();
    const Pending& pending = pending_.at(number);
    stream.Write(EncodeComputeMany(number, pending.item.spec.SerializeAsString(), pending.payload));
  }

  void Pull() {
    std::optional<Item> item = next_();
    exhausted_ = !item.has_value();
    if (exhausted_) return;
    const grpc::Slice payload = OwningSlice(std::move(item->payload));
    pending_bytes_ += payload.size();
    unsent_.push_back(++last_number_);
    pending_[last_number_] = {*std::move(item), payload};
  }

  absl::Status Answer(v1::ComputeManyResponse& response) {
    const auto it = pending_.find(response.request_id());
    if (it == pending_.end()) {
      return absl::InternalError(absl::StrCat(
          "the server answered a payload that was not sent: number ", response.request_id()));
    }
    const Pending pending = std::move(it->second);
    pending_.erase(it);
    pending_bytes_ -= pending.payload.size();
    ++answered_;
    ItemResult result{pending.item.id,
                      absl::InternalError("the server sent an answer without a result")};
    if (response.has_error()) {
      result.response = ToStatus(response.error());
    } else if (response.has_response()) {
      v1::ComputeResponse& reply = *response.mutable_response();
      const absl::Status status =
          CheckReply(pending.item.spec, reply.histogram(), reply.rows(), pending.payload.size());
      if (status.ok()) {
        result.response = std::move(reply);
      } else {
        result.response = status;
      }
    }
    on_result_(std::move(result));
    return absl::OkStatus();
  }

  const std::function<std::optional<Item>()>& next_;
  const std::function<void(ItemResult)>& on_result_;
  const ManyOptions& options_;
  std::map<uint64_t, Pending> pending_;  // by number on the wire
  std::deque<uint64_t> unsent_;          // of pending_, on this stream
  uint64_t pending_bytes_ = 0;
  uint64_t last_number_ = 0;
  uint64_t answered_ = 0;  // on this stream
  bool exhausted_ = false;
};

}  // namespace

absl::Status Client::ComputeMany(const std::function<std::optional<Item>()>& next,
                                 const std::function<void(ItemResult)>& on_result,
                                 const ManyOptions& options) {
  const absl::Time deadline = absl::Now() + options.call.timeout;
  ManyCall call(next, on_result, options);
  while (true) {
    const absl::Status status = call.RunStream(*impl_, deadline);
    if (status.ok()) return status;
    // gRPC has retried what has no answer at all, and retries no other stream.
    if (absl::IsUnavailable(status) && call.answered_any()) continue;
    call.FailPending(status);
    return status;
  }
}

std::vector<ItemResult> Client::ComputeMany(std::vector<Item> items, const ManyOptions& options) {
  std::vector<ItemResult> results;
  results.reserve(items.size());
  for (const Item& item : items) results.push_back({item.id, absl::UnknownError("")});
  // The index takes the id's place on the way, because ids may repeat.
  size_t taken = 0;
  const absl::Status status = ComputeMany(
      [&]() -> std::optional<Item> {
        if (taken == items.size()) return std::nullopt;
        Item item = std::move(items[taken]);
        item.id = taken++;
        return item;
      },
      [&](ItemResult result) { results[result.id].response = std::move(result.response); },
      options);
  for (size_t i = taken; i < results.size(); ++i) results[i].response = status;
  return results;
}

}  // namespace histogram::client
