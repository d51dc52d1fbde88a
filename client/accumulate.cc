#include <fcntl.h>
#include <histogram/client.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/codec.h"
#include "client/stream_call.h"

namespace histogram::client {
namespace {

using ChunkStream = StreamCall<v1::AccumulateResponse>;

// The messages of one Accumulate, made one ahead of the stream.
class ChunkSource {
 public:
  ChunkSource(const v1::Spec& spec, const Reader& reader, const AccumulateOptions& options)
      : spec_(spec),
        reader_(reader),
        options_(options),
        sample_bytes_(SampleBytes(spec)),
        chunk_bytes_(std::max<size_t>(options.chunk_bytes, sample_bytes_)) {}

  // Reads the next chunk, unless one waits or the end was reached. The reader fills gRPC's own
  // memory: the bytes are copied nowhere else, but for a sample that the reader gave a part of.
  absl::Status Prefetch() {
    if (message_.has_value() || exhausted_) return absl::OkStatus();
    grpc::Slice slice(chunk_bytes_);  // not const: it is written through begin()
    auto* const memory = reinterpret_cast<char*>(const_cast<uint8_t*>(slice.begin()));
    size_t filled = part_.copy(memory, part_.size());
    part_.clear();
    do {
      const size_t room = chunk_bytes_ - filled;
      const absl::StatusOr<size_t> bytes = reader_(absl::MakeSpan(memory + filled, room));
      if (!bytes.ok()) return bytes.status();
      if (*bytes > room) {
        return absl::InternalError(
            absl::StrCat("the reader says it read ", *bytes, " bytes into a buffer of ", room));
      }
      if (*bytes == 0) return End(filled);
      filled += *bytes;
    } while (filled < sample_bytes_);
    const size_t whole = filled - filled % sample_bytes_;
    part_.assign(memory + whole, filled - whole);
    Make(slice.sub(0, whole));
    return absl::OkStatus();
  }

  // Starts writing what waits; half-closes when nothing will.
  void Write(ChunkStream& stream) {
    if (!message_.has_value()) return stream.WritesDone();
    stream.Write(*message_);
    message_.reset();
    bytes_started_ = bytes_made_;
  }

  uint64_t bytes_started() const { return bytes_started_; }

 private:
  // `left`: bytes of a sample whose end did not come.
  absl::Status End(size_t left) {
    exhausted_ = true;
    if (left > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the payload ends within a sample: ", bytes_made_ + left,
                       " bytes are not a whole number of samples of ", sample_bytes_, " bytes"));
    }
    if (bytes_made_ == 0) Make(grpc::Slice());  // the spec has to be said
    return absl::OkStatus();
  }

  void Make(const grpc::Slice& chunk) {
    const uint64_t before = bytes_made_;
    bytes_made_ += chunk.size();
    const uint64_t every = options_.snapshot_bytes;
    const bool snapshot = every > 0 && before / every != bytes_made_ / every;
    message_ = EncodeAccumulate(before == 0 ? &spec_ : nullptr, snapshot, chunk);
  }

  const v1::Spec& spec_;
  const Reader& reader_;
  const AccumulateOptions& options_;
  const size_t sample_bytes_, chunk_bytes_;
  std::string part_;  // of a sample that the last chunk had no room for
  std::optional<grpc::ByteBuffer> message_;
  uint64_t bytes_made_ = 0;
  uint64_t bytes_started_ = 0;
  bool exhausted_ = false;
};

}  // namespace

absl::StatusOr<v1::AccumulateResponse> Client::Accumulate(const v1::Spec& spec,
                                                          const Reader& reader,
                                                          const AccumulateOptions& options) {
  if (options.chunk_bytes == 0) return absl::InvalidArgumentError("chunk_bytes is 0");
  ChunkSource source(spec, reader, options);
  std::optional<v1::AccumulateResponse> last;
  ChunkStream stream(*impl_, kAccumulateMethod, options.call, absl::Now() + options.call.timeout);
  uint64_t bytes_sent = 0;
  while (true) {
    std::optional<ChunkStream::Event> event;
    if (stream.MayWrite()) {
      if (absl::Status status = source.Prefetch(); !status.ok()) return status;
      // While the input kept the thread, the server may have ended the stream and gone. A write
      // would make the system drop what it said last.
      event = stream.Poll();
      if (!event.has_value()) {
        source.Write(stream);
        // The next chunk is read while gRPC sends this one.
        if (absl::Status status = source.Prefetch(); !status.ok()) return status;
      }
    }
    if (!event.has_value()) event = stream.Wait();
    if (event == ChunkStream::Event::kEnded) break;
    if (event == ChunkStream::Event::kWritten && source.bytes_started() != bytes_sent) {
      bytes_sent = source.bytes_started();
      if (options.on_progress) options.on_progress(bytes_sent);
    }
    if (event == ChunkStream::Event::kRead) {
      if (last.has_value() && last->final()) {
        return absl::InternalError("the server sent a second final histogram");
      }
      last = std::move(stream.response());
      if (!last->final() && options.on_snapshot) options.on_snapshot(*last);
    }
  }
  if (absl::Status status = stream.Finish(); !status.ok()) return status;
  if (!last.has_value() || !last->final() || !stream.writes_done()) {
    return absl::InternalError("the server ended the stream without the final histogram");
  }
  if (absl::Status bad = CheckReply(spec, last->histogram(), last->rows(), bytes_sent); !bad.ok()) {
    return bad;
  }
  return *std::move(last);
}

absl::StatusOr<v1::AccumulateResponse> Client::AccumulateFile(const v1::Spec& spec,
                                                              const std::string& path,
                                                              const AccumulateOptions& options) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rbe"), &fclose);
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  (void)posix_fadvise(fileno(file.get()), 0, 0, POSIX_FADV_SEQUENTIAL);
  return Accumulate(
      spec,
      [&](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
        size_t filled = 0;
        while (filled < buffer.size()) {
          filled += fread(&buffer[filled], 1, buffer.size() - filled, file.get());
          if (ferror(file.get()) == 0) break;
          // A signal's handler interrupts a read from a pipe.
          if (errno != EINTR) {
            return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
          }
          clearerr(file.get());
        }
        return filled;
      },
      options);
}

}  // namespace histogram::client
