// Accumulate: each connection sends chunks as fast as the server takes them, in one stream; the
// final histogram is compared with what was sent.
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/load/load_session.h"
#include "client/load/stream_client.h"
#include "client/methods.h"

namespace histogram::client {
namespace {

class ChunkStream final : public StreamClient {
 public:
  ChunkStream(LoadContext context, size_t connection)
      : StreamClient(context, connection, kAccumulateMethod),
        request_(context.messages.AccumulateChunk()) {}

  void Stop() {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }

 private:
  void OnStarted() override {
    StartRead(&reply_);
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    bool over = false;
    {
      absl::MutexLock lock(&mu_);
      if (ok) ++chunks_;
      over = !ok || stopping_;
    }
    // A chunk counts when the transport has taken it: flow control keeps that close to the server.
    if (ok) context().tally.Answered(since_, /*with_latency=*/false);
    if (over) {
      StartWritesDone();
    } else {
      WriteNext();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      // `chunks_` is final: the server answers after the half-close.
      absl::MutexLock lock(&mu_);
      if (context().options.verify && !context().messages.IsAccumulateReply(reply_, chunks_)) {
        context().tally.Wrong();
      }
    }
    StartRead(&reply_);
  }

  void WriteNext() {
    since_ = LoadClock::now();
    StartWrite(request_);
  }

  const grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  LoadClock::time_point since_;
  absl::Mutex mu_;
  uint64_t chunks_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::unique_ptr<LoadWorker> MakeAccumulateLoad(LoadContext context) {
  return std::make_unique<StreamsLoad<ChunkStream>>(context);
}

}  // namespace histogram::client
