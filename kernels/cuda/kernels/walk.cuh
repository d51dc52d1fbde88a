// How a batch is shared out over teams of warps, and how a team walks through its share.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_WALK_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_WALK_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/device.cuh"

namespace histogram::cuda {

// Payloads up to so many units of kRoundBytes are not cut between teams. 4 units change nothing;
// with 2 payloads of 4 KiB lose 2 points (H200, 4b6556a).
inline constexpr uint32_t kWholeUnits = 8;

// How the units are shared out: share w is [Begin(w), Begin(w + 1)).
struct Shares {
  uint32_t units, teams;
  __device__ uint32_t Begin(uint32_t team) const {
    return static_cast<uint32_t>(uint64_t{team} * units / teams);
  }
  // The team in whose share `unit` lies.
  __device__ uint32_t TeamOf(uint32_t unit) const {
    return static_cast<uint32_t>(((uint64_t{unit} + 1) * teams - 1) / units);
  }
};

// What a team reads next of a payload, and what follows from it: a stretch of full groups of
// rounds, or one group that is not full. Registers are short: two of these are alive.
struct Stretch {
  static constexpr uint32_t kCollect = 1;  // the tile ends with this stretch
  static constexpr uint32_t kFinish = 2;   // this team's part of the payload ends with it
  static constexpr uint32_t kEdge = 4;     // this thread has a byte of the payload's head or tail
  static constexpr uint32_t kValid = 8;    // not behind the last

  const uint4* at;   // this thread's first vector
  uint32_t groups;   // full groups; 0 for one that is not full
  int32_t left;      // then: round j is this thread's if j * a team's threads < left
  uint32_t payload;  // its index
  uint32_t sharing;  // the first of the teams that share the payload << 16 | their number
  uint32_t flags;

  __device__ bool Has(uint32_t flag) const { return (flags & flag) != 0; }
  __device__ uint32_t first_team() const { return sharing >> 16; }
  __device__ uint32_t sharers() const { return sharing & 0xFFFF; }
};

// Walks the stretches of one team's share, for a layout as team_batch.cuh explains it.
// REQUIRES: fewer than 65536 teams; a share has kRoundUnits units or more.
template <typename Layout>
class Walk {
 public:
  static constexpr uint32_t kTeamWarps = Layout::kTeamWarps;
  static constexpr uint32_t kGroupRounds = Layout::kGroupRounds;
  static constexpr uint32_t kTileGroups = Layout::kTileGroups;
  static constexpr uint32_t kTeamThreads = kTeamWarps * 32;
  // A round of the team is one 16-byte load in each of its threads; it belongs to the share that
  // has its first unit.
  static constexpr uint32_t kRoundUnits = kTeamThreads * 16 / kRoundBytes;

  __device__ Walk(const uint8_t* input, const BatchHeader* header, const Shares& shares,
                  uint32_t team)
      : input_(input), header_(header), thread_(threadIdx.x % kTeamThreads) {
    begin_ = shares.Begin(team);
    end_ = shares.Begin(team + 1);
    index_ = FindPayload(header->payload_count, shares.units);
    FetchDescriptors();
  }

  // The next stretch; `edge` becomes this thread's byte of the head or tail, where it has one.
  // `shares` as in the constructor.
  __device__ Stretch Next(const Shares& shares, const uint8_t*& edge) {
    Stretch next;
    next.groups = next.flags = 0;
    next.left = 0;
    if (round_ == round_end_) {
      edge = nullptr;
      if (!OpenPayload(shares, edge)) return next;
      if (edge != nullptr) next.flags = Stretch::kEdge;
    }
    next.payload = index_ - 1;
    next.sharing = sharing_;
    const uint32_t first = round_ * kTeamThreads;
    const uint32_t rounds_that_are_full = min(vectors_ / kTeamThreads, round_end_);
    const uint32_t full = rounds_that_are_full > round_ ? rounds_that_are_full - round_ : 0;
    next.groups = min(full / kGroupRounds, kTileGroups - tile_groups_);
    round_ = min(round_end_, round_ + max(next.groups, 1U) * kGroupRounds);
    next.at = base_ + first + thread_;
    next.left = static_cast<int32_t>(min(round_ * kTeamThreads, vectors_)) -
                static_cast<int32_t>(first + thread_);
    tile_groups_ += max(next.groups, 1U);
    next.flags |= Stretch::kValid;
    if (round_ == round_end_) next.flags |= Stretch::kFinish | Stretch::kCollect;
    if (tile_groups_ == kTileGroups) next.flags |= Stretch::kCollect;
    if (next.Has(Stretch::kCollect)) tile_groups_ = 0;
    return next;
  }

 private:
  __device__ const PayloadDescriptor* payloads() const {
    return reinterpret_cast<const PayloadDescriptor*>(header_ + 1);
  }

  // The last payload that starts at or before this share.
  __device__ uint32_t FindPayload(uint32_t payload_count, uint32_t units) const {
    const uint32_t warp_thread = thread_ % 32;
    uint32_t low = 0, high = payload_count;  // start[low] <= begin_ < start[high]
    // Most are found at the first try: where the payload would be if all had one size, or not far
    // off. Four times as many are tried in no less time within noise (H200).
    const auto guess = static_cast<uint32_t>(uint64_t{begin_} * high / units);
    const uint32_t from = high > 32 ? min(guess > 16 ? guess - 16 : 0, high - 32) : 0;
    const bool is_before =
        from + warp_thread < high && payloads()[from + warp_thread].start <= begin_;
    const uint32_t before = __popc(__ballot_sync(kAllThreads, is_before));
    if (before == 0) {
      high = from;
    } else {
      low = from + before - 1;
      if (before < 32) high = low + 1;
    }
    while (high - low > 1) {
      const uint32_t step = (high - low + 31) / 32;
      const uint32_t probe = low + warp_thread * step;
      const bool at_or_before = probe < high && payloads()[probe].start <= begin_;
      const uint32_t below = __ballot_sync(kAllThreads, at_or_before);
      const uint32_t last = 31 - __clz(static_cast<int>(below | 1));
      low += last * step;
      high = min(high, low + step);
    }
    return low;
  }

  // Thread i of each warp holds the descriptor of payload fetched_ + i; behind the last payload one
  // that starts behind every share.
  __device__ void FetchDescriptors() {
    fetched_ = index_;
    const uint32_t mine = index_ + thread_ % 32;
    uint4 raw = make_uint4(0, 0, 0, ~0U);
    if (mine < header_->payload_count) {
      raw = __ldg(reinterpret_cast<const uint4*>(payloads() + mine));
    }
    offset_low_ = raw.x;
    offset_high_ = raw.y;
    bytes_ = raw.z;
    start_ = raw.w;
  }

  // Goes on to the next payload of which this team has a part; false behind the last.
  __device__ bool OpenPayload(const Shares& shares, const uint8_t*& edge) {
    while (true) {
      if (index_ - fetched_ == 32) FetchDescriptors();
      const uint32_t source = index_ - fetched_;
      const uint32_t bytes = __shfl_sync(kAllThreads, bytes_, source);
      const uint32_t start = __shfl_sync(kAllThreads, start_, source);
      if (start >= end_) return false;
      const uint64_t offset = uint64_t{__shfl_sync(kAllThreads, offset_high_, source)} << 32 |
                              __shfl_sync(kAllThreads, offset_low_, source);
      ++index_;
      if (!TakePart(shares, bytes, start)) continue;
      const uint8_t* const data = input_ + offset;
      const Cut cut(data, bytes);
      vectors_ = cut.vectors;
      base_ = reinterpret_cast<const uint4*>(data + cut.head);
      if (round_ == 0) edge = Edge(data, cut);
      return true;
    }
  }

  // Threads 0 to 15 of the first warp take the bytes of the head, 16 to 31 those of the tail.
  __device__ const uint8_t* Edge(const uint8_t* data, const Cut& cut) const {
    if (thread_ < 16) return thread_ < cut.head ? data + thread_ : nullptr;
    const uint32_t i = thread_ - 16;
    return thread_ < 32 && i < cut.tail ? data + cut.head + cut.vectors * 16 + i : nullptr;
  }

  // Sets this team's rounds of the payload; false when it has none.
  __device__ bool TakePart(const Shares& shares, uint32_t bytes, uint32_t start) {
    const uint32_t units = RoundsOf(bytes);
    const uint32_t rounds = FirstRoundFrom(units);
    const uint32_t first_unit = start + Layout::kOverheadUnits;
    if (units <= kWholeUnits || (begin_ <= start && first_unit + units <= end_)) {
      if (start < begin_) return false;
      round_ = 0;
      round_end_ = max(rounds, 1U);
      sharing_ = 1;
      return true;
    }
    round_ = begin_ > first_unit ? min(FirstRoundFrom(begin_ - first_unit), rounds) : 0;
    round_end_ = end_ > first_unit ? min(FirstRoundFrom(end_ - first_unit), rounds) : 0;
    if (round_ >= round_end_) {
      round_ = round_end_ = 0;
      return false;
    }
    const uint32_t first_team = shares.TeamOf(first_unit);
    const uint32_t last_team = shares.TeamOf(first_unit + (rounds - 1) * kRoundUnits);
    sharing_ = first_team << 16 | (last_team - first_team + 1);
    return true;
  }

  // The first round that starts `units` units into the payload or later.
  __device__ static uint32_t FirstRoundFrom(uint32_t units) {
    return (units + kRoundUnits - 1) / kRoundUnits;
  }

  const uint8_t* const input_;
  const BatchHeader* const header_;
  const uint32_t thread_;  // in the team
  uint32_t begin_, end_;
  uint32_t index_;    // next payload to open
  uint32_t fetched_;  // payload whose descriptor thread 0 holds
  uint32_t offset_low_, offset_high_, bytes_, start_;
  // The open payload.
  uint32_t round_ = 0, round_end_ = 0, tile_groups_ = 0, vectors_ = 0, sharing_ = 1;
  const uint4* base_ = nullptr;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_WALK_CUH_
