// ComputeMany: each connection has one stream with a window of unanswered payloads.
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/load/load_session.h"
#include "client/load/stream_client.h"
#include "client/methods.h"

namespace histogram::client {
namespace {

class Stream final : public StreamClient {
 public:
  Stream(LoadContext context, size_t connection)
      : StreamClient(context, connection, kComputeManyMethod), begun_(context.options.in_flight) {}

  void Stop() {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    HalfCloseIfOver();
  }

 private:
  void OnStarted() override {
    StartRead(&reply_);
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      HalfCloseIfOver();
    }
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      if (!ok) broken_ = true;
      HalfCloseIfOver();
    }
    WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      absl::MutexLock lock(&mu_);
      broken_ = true;
      HalfCloseIfOver();
      return;
    }
    uint64_t id = 0;
    using Verdict = LoadMessages::Verdict;
    const Verdict verdict = context().messages.JudgeComputeManyReply(reply_, id);
    LoadClock::time_point since;
    {
      absl::MutexLock lock(&mu_);
      since = begun_[id % begun_.size()];
    }
    if (verdict == Verdict::kError) {
      context().tally.Failed(LoadMessages::ErrorOf(reply_));
    } else if (verdict == Verdict::kWrong && context().options.verify) {
      context().tally.Wrong();
    } else {
      context().tally.Answered(since, /*with_latency=*/true);
    }
    {
      absl::MutexLock lock(&mu_);
      --unanswered_;
      free_ids_.push_back(id);
      HalfCloseIfOver();
    }
    StartRead(&reply_);
    WriteNext();
  }

  // Up to a quarter of the window is sent together: a system call and a packet cost more than all
  // else that a small request takes. The rest of a full window is on its way, so that an answer
  // will come and another request with it.
  void WriteNext() {
    bool more = false;
    {
      absl::MutexLock lock(&mu_);
      if (writing_ || stopping_ || broken_ || unanswered_ >= begun_.size()) return;
      writing_ = true;
      ++unanswered_;
      // Ids are reused, so that one below the window's size names the slot of its start.
      uint64_t id = next_id_;
      if (free_ids_.empty()) {
        ++next_id_;
      } else {
        id = free_ids_.front();
        free_ids_.pop_front();
      }
      begun_[id % begun_.size()] = LoadClock::now();
      request_ = context().messages.ComputeMany(id);
      more = ++buffered_ < begun_.size() / 4;
      if (!more) buffered_ = 0;
    }
    grpc::WriteOptions options;
    if (more) options.set_buffer_hint();
    StartWrite(request_, options);
  }

  // The half-close also sends what was written with the promise that more would follow; the answers
  // to it come after.
  void HalfCloseIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (half_closed_ || writing_ || !(broken_ || stopping_)) return;
    half_closed_ = true;
    StartWritesDone();
  }

  grpc::ByteBuffer request_, reply_;
  absl::Mutex mu_;
  std::vector<LoadClock::time_point> begun_ ABSL_GUARDED_BY(mu_);
  std::deque<uint64_t> free_ids_ ABSL_GUARDED_BY(mu_);
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t unanswered_ ABSL_GUARDED_BY(mu_) = 0;
  size_t buffered_ ABSL_GUARDED_BY(mu_) = 0;  // requests that are written but not sent
  // A write is under way, or the start of the stream: gRPC allows one of start, write and
  // half-close at a time.
  bool writing_ ABSL_GUARDED_BY(mu_) = true;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::unique_ptr<LoadWorker> MakeStreamLoad(LoadContext context) {
  return std::make_unique<StreamsLoad<Stream>>(context);
}

}  // namespace histogram::client
