// The sizes at which a payload's way through the server forks, in one place.
// docs/ARCHITECTURE.md ("Sizes") shows them as a table. kernels/cuda/backend/lane/lane.h has the
// sizes of a GPU lane.
#ifndef HISTOGRAM_SERVER_BASE_THRESHOLDS_H_
#define HISTOGRAM_SERVER_BASE_THRESHOLDS_H_

#include <cstddef>
#include <cstdint>

namespace histogram::server {

// Counting it takes longer than asking gRPC for the next message. Reading first takes ComputeMany
// of 64 KiB from 20.5 to 24.7 thousand/s, and of 4 KiB from 59 to 42 (H200 host, ed0efa9).
inline constexpr uint64_t kReadFirstBytesMin = uint64_t{32} << 10;

// Messages from this size on are charged to the memory that streams read ahead. Of smaller ones a
// stream holds few bytes, and charging them would make cores wait for each other. Not
// measured apart.
inline constexpr uint64_t kReadAheadBytesMin = uint64_t{32} << 10;

// Payloads up to this size form a class of the queue, so that they need not wait behind large ones.
// Not measured apart.
inline constexpr uint64_t kSmallBytesMax = uint64_t{64} << 10;

// From here on a lane that counts makes a loop carry more: without lanes one connection of 256 KiB
// carries 0.56 to 0.82 of the calls. Of smaller payloads waking a lane costs more CPU than
// counting: over one connection a call of 64 KiB takes 0.79 to 0.86 of the CPU in the loop, at 1.0
// to 1.16 of the calls, one of 128 KiB 0.79 to 0.87 (2-core x86 VM with AVX-512, at 307dd75e).
inline constexpr uint64_t kHandOverBytesMin = uint64_t{256} << 10;

// Counting a larger one would keep a loop from its other calls for 100 us and more. A hand-over of
// 1 MiB over eight connections costs 3 to 4 % of the server's CPU time (ADR 5).
inline constexpr uint64_t kInlineBytesMax = uint64_t{1} << 20;

// Rows of one payload. A client that has more sends fewer at a time.
inline constexpr uint64_t kRowsMax = uint64_t{1} << 20;
// Samples of all rows, which may overlap, and counters that are cleared and looked through: about a
// second of one core.
inline constexpr uint64_t kRowWorkMax = uint64_t{1} << 30;
// The most bytes of one reply: as many as a server takes of a payload by default.
inline constexpr uint64_t kReplyBytesMax = uint64_t{64} << 20;
// A server that allows more bins also sends the counts and edges of that many.
constexpr uint64_t ReplyBytesMax(uint32_t bin_count_max) {
  const uint64_t histogram = 2 * sizeof(uint64_t) * bin_count_max + (uint64_t{64} << 10);
  return histogram > kReplyBytesMax ? histogram : kReplyBytesMax;
}

// Tables of a plan of more bins are made by a lane: making them takes longer than the thread that
// received the request may be kept from others. So are those of fewer bins, unless they are for a
// payload that takes longer to count. Not measured apart.
inline constexpr uint32_t kPlanBinsAtOnceMax = 4096;
// The cache keeps plans of more bins, and their specs, for later requests. A plan that is larger
// than the cache is made for each request.
inline constexpr uint64_t kPlanCacheBytesMax = uint64_t{64} << 20;

// The most bytes of counters and reply of a payload that is counted where it arrived. Those of
// 65,536 bins keep a loop from its other calls for as long as counting kInlineBytesMax does. Not
// measured apart.
inline constexpr uint64_t kInlineAnswerBytesMax = uint64_t{2} << 20;
// The most counters of a payload that is cut over lanes of the CPU. Each lane has as many, and
// adding them up keeps other lanes waiting. Not measured apart.
inline constexpr uint64_t kSplitCountersMax = uint64_t{1} << 17;

// The parts of a smaller one would cost more to hand out and to add up than they gain. Beside the
// touch sink, 16 MiB over eight connections reach 0.90 cut and 0.77 whole (H200 host, ed0efa9); the
// size was not measured apart.
inline constexpr uint64_t kSplitBytesMin = uint64_t{2} << 20;

// Unanswered payloads of one ComputeMany; with as many its stream is not read. So a stream holds a
// bounded part of the queue, and as many payloads for the lanes as they can use. Not measured
// apart.
inline constexpr uint32_t kStreamPayloadsMax = 64;

// Quantiles of one request: a few KiB of its reply.
inline constexpr uint32_t kQuantilesMax = 1024;

// Metadata of a call. A bearer token, tracing headers and what proxies add take 1 to 4 KiB; HTTP
// servers commonly stop at 8 to 16 KiB, too.
inline constexpr uint64_t kHeaderBytesMax = uint64_t{16} << 10;

// Tenants of a token file, and values of the metrics' label; more count as "other".
inline constexpr size_t kTenantsMax = 64;

// A batch costs some 10 us by itself on a GPU: 10 ns a payload with this many. More would only keep
// its lane for longer. Not measured apart.
inline constexpr uint32_t kBatchPayloadsMax = 1024;

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_THRESHOLDS_H_
