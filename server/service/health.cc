#include "server/service/health.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "server/rpc/call.h"
#include "server/service/grpc_bytes.h"

namespace histogram::server {
namespace {

using grpc::health::v1::HealthCheckRequest;

// A watcher of an unknown name keeps it for as long as it likes, without a token.
constexpr size_t kServiceBytesMax = 200;

absl::StatusOr<std::string> ServiceOf(grpc::ByteBuffer& request) {
  if (IsCompressed(request)) return CompressedMessage();
  HealthCheckRequest parsed;
  if (!grpc::SerializationTraits<HealthCheckRequest>::Deserialize(&request, &parsed).ok()) {
    return absl::InvalidArgumentError("the message is not a grpc.health.v1.HealthCheckRequest");
  }
  if (parsed.service().size() > kServiceBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("service: ", parsed.service().size(),
                                                   " bytes are more than the limit of ",
                                                   kServiceBytesMax));
  }
  return parsed.service();
}

grpc::ByteBuffer ReplyOf(ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return EncodeMessage(response.SerializeAsString());
}

class CheckCall final : public UnaryCall {
 public:
  CheckCall(HealthService& health, EventLoop& loop) : UnaryCall(loop), health_(health) {
    Await(health.Of(HealthService::kCheck));
  }

 private:
  void AwaitNext() override { new CheckCall(health_, loop()); }
  void OnHeaders() override { Receive(); }
  void OnReceived(bool ok) override {
    const absl::StatusOr<std::string> name =
        ok ? ServiceOf(received()) : absl::InvalidArgumentError("the call has no message");
    if (!name.ok()) return ReplyError(ToGrpcStatus(name.status()));
    const ServingStatus status = health_.Status(*name);
    if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
      return ReplyError({grpc::StatusCode::NOT_FOUND, "service name unknown"});
    }
    Reply(ReplyOf(status));
  }

  HealthService& health_;
};

}  // namespace

// Reads one message and writes each new status. A status that changes while a write is under way is
// written after it, the last one only.
class WatchCall final : public StreamCall {
 public:
  WatchCall(HealthService& health, EventLoop& loop) : StreamCall(loop), health_(health) {
    Await(health.Of(HealthService::kWatch));
  }

  // Writes the status if it is new, or ends the call, as soon as no write is under way.
  // REQUIRES: the name is known, or the call is to end.
  void Advance() {
    if (std::exchange(writing_, true)) return;
    if (end_.has_value()) return Finish(*end_);
    const ServingStatus status = health_.Status(name_);
    writing_ = written_ != status;
    if (!writing_) return;
    written_ = status;
    StartWrite(ReplyOf(status));
  }

 private:
  void AwaitNext() override { new WatchCall(health_, loop()); }
  void OnHeaders() override { Receive(); }
  void OnReceived(bool ok) override {
    absl::StatusOr<std::string> name =
        ok ? ServiceOf(received()) : absl::InvalidArgumentError("a Watch needs one message");
    received().Clear();
    if (name.ok()) {
      name_ = *std::move(name);
      health_.watchers(loop()).insert(this);
    } else {
      end_ = ToGrpcStatus(name.status());
    }
    Advance();
  }
  void OnWriteDone(bool ok) override {
    writing_ = false;
    if (!ok && !end_.has_value()) end_ = grpc::Status::CANCELLED;
    Advance();
  }
  void OnCancel() override {
    if (!end_.has_value()) end_ = grpc::Status::CANCELLED;
    Advance();
  }
  void OnDone() override { health_.watchers(loop()).erase(this); }

  HealthService& health_;
  std::string name_;
  std::optional<ServingStatus> written_;
  std::optional<grpc::Status> end_;  // how the call is to end
  bool writing_ = false;             // or finished
};

HealthService::HealthService() {
  AddRawMethod("/grpc.health.v1.Health/Check");
  AddRawMethod("/grpc.health.v1.Health/Watch");
}

void HealthService::SetServing(const std::string& name, bool serving) {
  const ServingStatus status =
      serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(statuses_[name], status) == status) return;
  }
  for (const auto& [loop, watchers] : watchers_) {
    PostFunction(*loop, [of_loop = &watchers] {
      for (WatchCall* watcher : *of_loop) watcher->Advance();
    });
  }
}

ServingStatus HealthService::Status(const std::string& name) const {
  absl::MutexLock lock(&mu_);
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : found->second;
}

void HealthService::AwaitCalls(EventLoop& loop) {
  watchers_[&loop];
  new CheckCall(*this, loop);  // both delete themselves
  new WatchCall(*this, loop);
}

}  // namespace histogram::server
