#include "bench/service/sinks.h"

#include "server/request/encode.h"
#include "server/service/grpc_bytes.h"

namespace histogram::bench {
namespace {

using server::Answer;
using server::EncodeMessage;
using server::Method;
using server::Reply;

// 256 counts and a receipt with numbers of the usual size. The answer points at `counts`.
Answer PreparedAnswer(const ValueCounts& counts, uint64_t samples) {
  Answer answer;
  answer.in_place = counts;
  answer.histogram.samples = samples;
  answer.receipt.batch = {.backend = "cpu", .kernel = "scalar", .payloads = 1, .kernel_ns = 20000};
  answer.receipt.total_ns = 40000;
  return answer;
}

}  // namespace

grpc::ByteBuffer ComputeReply(const ValueCounts& counts, uint64_t samples) {
  return EncodeMessage(Reply{Method::kCompute, PreparedAnswer(counts, samples)});
}

grpc::ByteBuffer ComputeManyReply(const ValueCounts& counts, uint64_t samples,
                                  uint64_t request_id) {
  const Answer answer = PreparedAnswer(counts, samples);
  return EncodeMessage(Reply{Method::kComputeMany, answer, false, request_id});
}

grpc::ByteBuffer AccumulateReply(const ValueCounts& counts, uint64_t samples, uint64_t chunks) {
  const Answer answer = PreparedAnswer(counts, samples);
  return EncodeMessage(Reply{Method::kAccumulate, answer, false, chunks, true});
}

}  // namespace histogram::bench
