// Accumulate: each connection sends chunks as fast as the server takes them, in one stream; the
// final histogram is compared with what was sent.
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/load/load_session.h"
#include "client/methods.h"

namespace histogram::client {
namespace {

class ChunkStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ChunkStream(LoadContext context, RawStub& stub)
      : context_(context), request_(context.messages.AccumulateChunk()) {
    Authorize(context.options, rpc_);
    stub.PrepareBidiStreamingCall(&rpc_, kAccumulateMethod, {}, this);
  }

  void Start() {
    AddHold();
    StartRead(&reply_);
    StartCall();
    WriteNext();
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  void Join() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&done_));
  }

  void OnWriteDone(bool ok) override {
    bool over = false;
    {
      absl::MutexLock lock(&mu_);
      if (ok) ++chunks_;
      over = !ok || stopping_;
    }
    // A chunk counts when the transport has taken it: flow control keeps that close to the server.
    if (ok) context_.tally.Answered(since_, /*with_latency=*/false);
    if (over) {
      StartWritesDone();
      RemoveHold();
    } else {
      WriteNext();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    // `chunks_` is final: the server answers after the half-close.
    absl::MutexLock lock(&mu_);
    if (context_.options.verify && !context_.messages.IsAccumulateReply(reply_, chunks_)) {
      context_.tally.Wrong();
    }
  }

  void OnDone(const grpc::Status& status) override {
    if (!status.ok()) context_.tally.Failed(status.error_message());
    absl::MutexLock lock(&mu_);
    done_ = true;
  }

 private:
  void WriteNext() {
    since_ = LoadClock::now();
    StartWrite(&request_);
  }

  const LoadContext context_;
  const grpc::ByteBuffer request_;
  grpc::ClientContext rpc_;
  grpc::ByteBuffer reply_;
  LoadClock::time_point since_;
  absl::Mutex mu_;
  uint64_t chunks_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

class AccumulateLoad final : public LoadWorker {
 public:
  explicit AccumulateLoad(LoadContext context) {
    for (const auto& stub : context.stubs) {
      streams_.push_back(std::make_unique<ChunkStream>(context, *stub));
    }
  }
  void Start() override {
    for (auto& s : streams_) s->Start();
  }
  void Stop() override {
    for (auto& s : streams_) s->Stop();
  }
  void Join() override {
    for (auto& s : streams_) s->Join();
  }

 private:
  std::vector<std::unique_ptr<ChunkStream>> streams_;
};

}  // namespace

std::unique_ptr<LoadWorker> MakeAccumulateLoad(LoadContext context) {
  return std::make_unique<AccumulateLoad>(context);
}

}  // namespace histogram::client
