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
    Await([&](auto... arguments) { health.Request(HealthService::kCheck, arguments...); });
  }

 private:
  void AwaitNext() override { new CheckCall(health_, loop()); }
  void OnMessage() override {
    const absl::StatusOr<std::string> name = ServiceOf(request());
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
class WatchCall final : public StreamCall, public std::enable_shared_from_this<WatchCall> {
 public:
  WatchCall(HealthService& health, EventLoop& loop) : StreamCall(loop), health_(health) {}

  void Await() {
    self_ = shared_from_this();
    StreamCall::Await(
        [this](auto... arguments) { health_.Request(HealthService::kWatch, arguments...); });
  }

  const std::string& name() const { return name_; }
  // By any thread.
  void Changed(ServingStatus status) {
    PostFunction(loop(), [keep = shared_from_this(), status] {
      keep->next_ = status;
      keep->Advance();
    });
  }

 private:
  void AwaitNext() override { std::make_shared<WatchCall>(health_, loop())->Await(); }
  void OnHeaders() override { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    absl::StatusOr<std::string> name =
        ok ? ServiceOf(request_) : absl::InvalidArgumentError("a Watch needs one message");
    request_.Clear();
    if (name.ok()) {
      name_ = *std::move(name);
      health_.Watch(self_);
      return;
    }
    end_ = ToGrpcStatus(name.status());
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
  void OnDone() override {
    health_.Unwatch(self_);
    self_.reset();
  }
  void OnShutdown() override { self_.reset(); }

  void Advance() {
    if (writing_ || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      Finish(*end_);
    } else if (next_ != written_) {
      writing_ = true;
      written_ = next_;
      StartWrite(ReplyOf(*next_));
    }
  }

  HealthService& health_;
  std::shared_ptr<WatchCall> self_;  // gRPC's hold on the call: from Await to OnDone
  std::string name_;
  grpc::ByteBuffer request_;

  std::optional<ServingStatus> next_, written_;
  std::optional<grpc::Status> end_;  // how the call is to end
  bool writing_ = false;
  bool finished_ = false;
};

HealthService::HealthService() {
  AddRawMethod("/grpc.health.v1.Health/Check");
  AddRawMethod("/grpc.health.v1.Health/Watch");
}

void HealthService::SetServing(const std::string& name, bool serving) {
  const ServingStatus status =
      serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  absl::MutexLock lock(&mu_);
  if (std::exchange(statuses_[name], status) == status) return;
  for (const auto& watcher : watchers_) {
    if (watcher->name() == name) watcher->Changed(status);
  }
}

ServingStatus HealthService::StatusLocked(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : found->second;
}

ServingStatus HealthService::Status(const std::string& name) const {
  absl::MutexLock lock(&mu_);
  return StatusLocked(name);
}

void HealthService::Watch(const std::shared_ptr<WatchCall>& watcher) {
  absl::MutexLock lock(&mu_);
  watchers_.insert(watcher);
  watcher->Changed(StatusLocked(watcher->name()));
}

void HealthService::Unwatch(const std::shared_ptr<WatchCall>& watcher) {
  absl::MutexLock lock(&mu_);
  watchers_.erase(watcher);
}

void HealthService::AwaitCalls(EventLoop& loop) {
  new CheckCall(*this, loop);  // deletes itself
  std::make_shared<WatchCall>(*this, loop)->Await();
}

}  // namespace histogram::server
