// The load generator's end of a stream, on the completion queue of its connection.
#ifndef HISTOGRAM_CLIENT_LOAD_STREAM_CLIENT_H_
#define HISTOGRAM_CLIENT_LOAD_STREAM_CLIENT_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/load/load_queues.h"
#include "client/load/load_session.h"

namespace histogram::client {

// The queue's thread calls the functions named On... At most one read may be under way, and at most
// one of the start, a write and the half-close: gRPC aborts the process at a second one.
class StreamClient {
 public:
  StreamClient(LoadContext context, size_t connection, const char* method) : context_(context) {
    Authorize(context.options, rpc_);
    stream_ = context.stubs[connection]->PrepareCall(&rpc_, method, context.queues.of(connection));
  }
  virtual ~StreamClient() = default;
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  void Start() { stream_->StartCall(started_.tag()); }
  // Waits for the end of the stream. It ends when it is half-closed and all replies have come, or
  // when the server ends it.
  void Join() {
    absl::MutexLock lock(&over_mu_);
    over_mu_.Await(absl::Condition(&over_));
  }

 protected:
  virtual void OnStarted() = 0;
  // `ok` is false if no more replies come.
  virtual void OnReadDone(bool ok) = 0;
  // `ok` is false if the stream has ended.
  virtual void OnWriteDone(bool ok) = 0;

  void StartRead(grpc::ByteBuffer* reply) { stream_->Read(reply, read_.tag()); }
  void StartWrite(const grpc::ByteBuffer& request, grpc::WriteOptions options = {}) {
    stream_->Write(request, options, written_.tag());
  }
  // Half-closes the stream. Call it once, after OnStarted and all writes, even if a write failed.
  void StartWritesDone() { stream_->WritesDone(half_closed_.tag()); }

  const LoadContext& context() const { return context_; }

 private:
  void Started(bool) { OnStarted(); }
  void Read(bool ok) {
    OnReadDone(ok);
    if (!ok) EndOnce();
  }
  void Written(bool ok) { OnWriteDone(ok); }
  void HalfClosed(bool) { EndOnce(); }
  // Called for the last read and for the half-close. The later call finishes the stream: then no
  // other operation is under way.
  void EndOnce() {
    if (++ended_ == 2) stream_->Finish(&status_, finished_.tag());
  }
  void Finished(bool) {
    if (!status_.ok()) context_.tally.Failed(status_);
    absl::MutexLock lock(&over_mu_);
    over_ = true;
  }

  const LoadContext context_;
  grpc::ClientContext rpc_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  LoadEventOf<StreamClient, &StreamClient::Started> started_{*this};
  LoadEventOf<StreamClient, &StreamClient::Read> read_{*this};
  LoadEventOf<StreamClient, &StreamClient::Written> written_{*this};
  LoadEventOf<StreamClient, &StreamClient::HalfClosed> half_closed_{*this};
  LoadEventOf<StreamClient, &StreamClient::Finished> finished_{*this};
  int ended_ = 0;  // calls of EndOnce; used on the queue's thread only
  grpc::Status status_;
  absl::Mutex over_mu_;
  bool over_ ABSL_GUARDED_BY(over_mu_) = false;
};

// One stream for each connection. `Stream` is a StreamClient with Stop().
template <typename Stream>
class StreamsLoad final : public LoadWorker {
 public:
  explicit StreamsLoad(const LoadContext& context) {
    for (size_t i = 0; i < context.stubs.size(); ++i) {
      streams_.push_back(std::make_unique<Stream>(context, i));
    }
  }
  void Start() override {
    for (auto& stream : streams_) stream->Start();
  }
  void Stop() override {
    for (auto& stream : streams_) stream->Stop();
  }
  void Join() override {
    for (auto& stream : streams_) stream->Join();
  }

 private:
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_STREAM_CLIENT_H_
