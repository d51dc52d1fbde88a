// How warp_batch shares a batch out over its teams, and how a team walks through its share.
#ifndef HISTOGRAM_KERNELS_CUDA_REGISTRY_WARP_BATCH_WALK_CUH_
#define HISTOGRAM_KERNELS_CUDA_REGISTRY_WARP_BATCH_WALK_CUH_

#include <cstdint>

#include "kernels/cuda/registry/device.cuh"

namespace histogram::cuda {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFFU;
// A team is two warps that share a table and every payload.
inline constexpr uint32_t kTeamLanes = 64;
// Payloads up to so many rounds are not cut between teams.
inline constexpr uint32_t kWholeRounds = 8;
// Rounds in flight: a lane's 16-byte loads that are under way together.
inline constexpr int32_t kGroupRounds = 4;
// Groups between two collections: 15 * 4 KiB and the edges stay below 65536 bytes.
inline constexpr uint32_t kTileGroups = 15;

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
// kGroupRounds rounds, or one group that is not full.
struct Stretch {
  const uint4* at;      // this lane's first vector
  uint32_t groups;      // full groups; 0 for one that is not full
  int32_t left;         // then: round j is this lane's if j * kTeamLanes < left
  const uint8_t* edge;  // this lane's byte of the payload's head or tail; null where it has none
  uint32_t payload;     // its index
  uint32_t first_team;  // of those that share the payload
  uint32_t sharers;     // teams
  bool collect;         // the tile ends with this stretch
  bool finish;          // this team's part of the payload ends with it
  bool valid;           // false behind the last
};

// Walks the stretches of one team's share.
class Walk {
 public:
  __device__ Walk(const uint8_t* input, const BatchHeader* header, const Shares& shares,
                  uint32_t team)
      : input_(input), shares_(shares) {
    payloads_ = reinterpret_cast<const PayloadDescriptor*>(header + 1);
    payload_count_ = header->payload_count;
    lane_ = threadIdx.x % kTeamLanes;
    warp_lane_ = lane_ % 32;
    begin_ = shares.Begin(team);
    end_ = shares.Begin(team + 1);
    team_ = team;
    index_ = FindPayload();
    FetchDescriptors();
  }

  __device__ Stretch Next() {
    Stretch next;
    if (round_ == round_end_ && !OpenPayload()) {
      next.groups = 0;
      next.left = 0;
      next.edge = nullptr;
      next.collect = next.finish = next.valid = false;
      return next;
    }
    next.payload = open_;
    next.first_team = first_team_;
    next.sharers = sharers_;
    next.edge = nullptr;
    if (edges_due_) {
      edges_due_ = false;
      next.edge = Edge();
    }
    const uint32_t first = round_ * kTeamLanes;
    const uint32_t rounds_that_are_full = min(cut_.vectors / kTeamLanes, round_end_);
    const uint32_t full = rounds_that_are_full > round_ ? rounds_that_are_full - round_ : 0;
    next.groups = min(full / kGroupRounds, kTileGroups - tile_groups_);
    round_ = min(round_end_, round_ + max(next.groups, 1U) * kGroupRounds);
    const uint32_t end = min(round_ * kTeamLanes, cut_.vectors);
    next.at = reinterpret_cast<const uint4*>(data_ + cut_.head) + first + lane_;
    next.left = static_cast<int32_t>(end) - static_cast<int32_t>(first + lane_);
    next.finish = round_ == round_end_;
    tile_groups_ += max(next.groups, 1U);
    next.collect = next.finish || tile_groups_ == kTileGroups;
    if (next.collect) tile_groups_ = 0;
    next.valid = true;
    return next;
  }

 private:
  // Lanes 0 to 15 of the first warp take the bytes of the head, 16 to 31 those of the tail.
  __device__ const uint8_t* Edge() const {
    if (lane_ >= 32) return nullptr;
    if (lane_ < 16) return lane_ < cut_.head ? data_ + lane_ : nullptr;
    const uint32_t i = lane_ - 16;
    return i < cut_.tail ? data_ + cut_.head + cut_.vectors * 16 + i : nullptr;
  }

  // The last payload that starts at or before this share.
  __device__ uint32_t FindPayload() const {
    uint32_t low = 0, high = payload_count_;  // start[low] <= begin_ < start[high]
    if (high > 32) {
      // Payloads of one size are found at the first try.
      const auto guess = static_cast<uint32_t>(uint64_t{begin_} * high / shares_.units);
      const uint32_t from = min(guess > 16 ? guess - 16 : 0, high - 32);
      const uint32_t below = __ballot_sync(kAllLanes, payloads_[from + warp_lane_].start <= begin_);
      if (below != 0) {
        low = from + 31 - __clz(static_cast<int>(below));
        if (below != kAllLanes) high = low + 1;
      } else {
        high = from;
      }
    }
    while (high - low > 1) {
      const uint32_t step = (high - low + 31) / 32;
      const uint32_t probe = low + warp_lane_ * step;
      const bool at_or_before = probe < high && payloads_[probe].start <= begin_;
      const uint32_t below = __ballot_sync(kAllLanes, at_or_before);
      const uint32_t last = 31 - __clz(static_cast<int>(below | 1));
      low += last * step;
      high = min(high, low + step);
    }
    return low;
  }

  // Lane i holds the descriptor of payload fetched_ + i.
  __device__ void FetchDescriptors() {
    fetched_ = index_;
    const uint32_t mine = min(index_ + warp_lane_, payload_count_ - 1);
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(payloads_ + mine));
    offset_low_ = raw.x;
    offset_high_ = raw.y;
    bytes_ = raw.z;
    start_ = raw.w;
  }

  // Goes on to the next payload of which this team has a part; false behind the last.
  __device__ bool OpenPayload() {
    while (index_ < payload_count_) {
      if (index_ - fetched_ == 32) FetchDescriptors();
      const uint32_t source = index_ - fetched_;
      const uint32_t bytes = __shfl_sync(kAllLanes, bytes_, source);
      const uint32_t start = __shfl_sync(kAllLanes, start_, source);
      if (start >= end_) return false;
      const uint64_t offset = uint64_t{__shfl_sync(kAllLanes, offset_high_, source)} << 32 |
                              __shfl_sync(kAllLanes, offset_low_, source);
      open_ = index_++;
      if (TakePart(bytes, start)) {
        data_ = input_ + offset;
        cut_ = Cut(data_, bytes);
        return true;
      }
    }
    return false;
  }

  // Sets this team's rounds of the payload; false when it has none.
  __device__ bool TakePart(uint32_t bytes, uint32_t start) {
    const uint32_t rounds = RoundsOf(bytes);
    const uint32_t first_unit = start + kPayloadOverheadUnits;
    if (rounds <= kWholeRounds || (begin_ <= start && first_unit + rounds <= end_)) {
      if (start < begin_) return false;
      round_ = 0;
      round_end_ = max(rounds, 1U);
      edges_due_ = true;
      sharers_ = 1;
      first_team_ = team_;
      return true;
    }
    round_ = begin_ > first_unit ? min(begin_ - first_unit, rounds) : 0;
    round_end_ = end_ > first_unit ? min(end_ - first_unit, rounds) : 0;
    if (round_ >= round_end_) {
      round_ = round_end_ = 0;
      return false;
    }
    edges_due_ = round_ == 0;
    first_team_ = shares_.TeamOf(first_unit);
    sharers_ = shares_.TeamOf(first_unit + rounds - 1) - first_team_ + 1;
    return true;
  }

  const uint8_t* const input_;
  const Shares shares_;
  const PayloadDescriptor* payloads_;
  uint32_t payload_count_, lane_, warp_lane_, team_, begin_, end_;
  uint32_t index_;    // next payload to open
  uint32_t fetched_;  // payload whose descriptor lane 0 holds
  uint32_t offset_low_, offset_high_, bytes_, start_;
  // The open payload.
  uint32_t open_ = 0, round_ = 0, round_end_ = 0, tile_groups_ = 0;
  uint32_t first_team_ = 0, sharers_ = 1;
  Cut cut_ = Cut(nullptr, 0);
  const uint8_t* data_ = nullptr;
  bool edges_due_ = false;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_REGISTRY_WARP_BATCH_WALK_CUH_
