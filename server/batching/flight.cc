#include "server/batching/flight.h"

#include <algorithm>
#include <cassert>

namespace histogram::server {
namespace {

// Appends bytes [offset, offset + bytes) of `fragments` to `out`, as fragments: it copies no
// payload. REQUIRES: offset + bytes is at most the sum of the fragments' sizes.
void CutFragments(absl::Span<const Fragment> fragments, uint64_t offset, uint64_t bytes,
                  std::vector<Fragment>& out) {
  for (const Fragment& fragment : fragments) {
    if (bytes == 0) break;
    if (offset >= fragment.size()) {
      offset -= fragment.size();
      continue;
    }
    const uint64_t taken = std::min<uint64_t>(bytes, fragment.size() - offset);
    out.push_back(fragment.subspan(offset, taken));
    bytes -= taken;
    offset = 0;
  }
  assert(bytes == 0);
}

}  // namespace

void Flight::Add(const Piece& piece) {
  pieces.push_back(piece);
  bytes += piece.bytes;
  whole_jobs += piece.whole ? 1 : 0;
}

void Flight::Prepare() {
  if (batch == nullptr) batch = std::make_unique<Batch>();
  // Rows may be larger than those of bytes: of such no more are kept than this batch needs.
  const bool large = pieces.front().job->plan.counter_count() > kByteValues;
  if (large || rows.size() < pieces.size()) rows.resize(pieces.size());
  batch->items.resize(pieces.size());
  batch->bytes = bytes;
  // The backend may give up when nobody waits any more: after the last deadline.
  TimeNs last_deadline = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Job& job = *pieces[i].job;
    BatchItem& item = batch->items[i];
    item.bytes = pieces[i].bytes;
    item.plan = job.plan;
    item.phases = job.phases;
    rows[i].resize(job.phases == nullptr ? job.plan.counter_count() : 0);
    item.counts = absl::MakeSpan(rows[i]);
    item.fragments = job.fragments;
    last_deadline = std::max(last_deadline, job.deadline);
  }
  batch->deadline_ns = last_deadline == kNever ? 0 : last_deadline;

  if (whole_jobs == pieces.size()) return;
  cut.clear();
  // First all the fragments, then the spans: the vector may move while it grows.
  for (const Piece& piece : pieces) {
    if (!piece.whole) CutFragments(piece.job->fragments, piece.offset, piece.bytes, cut);
  }
  size_t begin = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].whole) continue;
    uint64_t left = pieces[i].bytes;
    size_t end = begin;
    for (; left > 0; ++end) left -= cut[end].size();
    batch->items[i].fragments = absl::MakeConstSpan(cut).subspan(begin, end - begin);
    begin = end;
  }
}

void Flight::Give(const Piece& piece) {
  if (piece.job->phases == nullptr) piece.job->counters.swap(rows[&piece - pieces.data()]);
}

void Flight::AddUp(const Piece& piece) {
  Job& job = *piece.job;
  const std::vector<uint64_t>& row = rows[&piece - pieces.data()];
  for (size_t i = 0; i < row.size(); ++i) job.counters[i] += row[i];
}

void Flight::Reset() {
  quarantined = false;
  backend = -1;
  pieces.clear();
  bytes = 0;
  whole_jobs = 0;
  started_at.store(kNever, std::memory_order_relaxed);
  if (batch != nullptr) {
    batch->items.clear();
    batch->status = absl::OkStatus();
  }
  for (std::vector<uint64_t>& row : rows) {
    if (row.capacity() > kCountersKeptMax) std::vector<uint64_t>().swap(row);
  }
  cut.clear();
  owners.clear();
}

}  // namespace histogram::server
