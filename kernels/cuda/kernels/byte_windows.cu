// Counts windows of bytes, a few thousand each, all in one launch.
//
// A team of four warps has a table (byte_tables.cuh). Two windows that are counted at the same time
// have a half of each counter. Reading the table costs more than counting a window, and is done
// once for both. The table is cleared only once: what was counted since the last time is the
// difference of two sums modulo 2^32.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/byte_tables.cuh"
#include "kernels/cuda/kernels/typed_rows.h"

namespace histogram::cuda {
namespace {

// Six tables fill shared memory.
constexpr uint32_t kTeamWarps = 4, kTeams = 6;
constexpr uint32_t kThreads = kTeams * kTeamWarps * 32;
constexpr uint32_t kTablesBytes = kTeams / 2 * kByteTablePairBytes;
constexpr uint32_t kRows = kByteValues / kTeamWarps / 32;  // of a table, for each thread

struct Windows {
  RowsLaunch launch;
  float* entropy = nullptr;  // null: counts are written
  // The entropy is log2(bytes) - sum / divisor, of the integers nearest to scale * c * log2(c).
  float log2_bytes = 0, scale = 0, divisor = 0;
};

// Windows that are counted at the same time. With two, windows of 1, 2 and 4 KiB reach 64, 76 and
// 91 % of a copy; with four, those of 1 KiB 76 and of 2 KiB 62 (H200, d727295).
constexpr uint32_t kFields = 2;
constexpr uint32_t kWarpsOfWindow = kTeamWarps / kFields;

// Windows of kVectors vectors for each thread of two warps.
template <uint32_t kVectors>
class Team {
 public:
  __device__ explicit Team(const Windows& args)
      : args_(args),
        thread_(threadIdx.x % 32),
        warp_(threadIdx.x / 32 % kTeamWarps),
        team_(threadIdx.x / 32 / kTeamWarps),
        base_(ByteTableBase(team_, thread_)),
        addend_(1U << (32 / kFields * Field())),
        table_(team_, warp_, thread_) {
    table_.Clear();
  }

  __device__ void Run() {
    const uint64_t groups = (args_.launch.stretches + kFields - 1) / kFields;
    const uint64_t teams = uint64_t{gridDim.x} * kTeams;
    uint64_t group = uint64_t{team_} * gridDim.x + blockIdx.x;
    Load(group);
    for (; group < groups; group += teams) {
      if (group * kFields + Field() < args_.launch.stretches) Count();
      Load(group + teams);
      table_.Barrier();
      uint32_t counts[kRows][kFields];
      Collect(counts);
      const uint64_t windows = min(args_.launch.stretches - group * kFields, uint64_t{kFields});
      if (args_.entropy == nullptr) {
        WriteCounts(group, static_cast<uint32_t>(windows), counts);
        table_.Barrier();
      } else {
        AddUp(counts);
        table_.Barrier();
        WriteEntropy(group, static_cast<uint32_t>(windows));
      }
    }
  }

  __device__ void CountWord(uint32_t word) const { AddBytes(word, base_, addend_); }

 private:
  __device__ uint32_t Field() const { return warp_ / kWarpsOfWindow; }

  __device__ void Load(uint64_t group) {
    const uint64_t window = group * kFields + Field();
    if (window >= args_.launch.stretches) return;
    const uint4* const at = static_cast<const uint4*>(args_.launch.samples) +
                            window * (args_.launch.step / 16) +
                            warp_ % kWarpsOfWindow * (32 * kVectors) + thread_;
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) loaded_[v] = LoadStreaming(at + v * 32);
  }

  __device__ void Count() const {
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) CountVector(*this, loaded_[v]);
  }

  __device__ uint32_t Value(uint32_t r) const { return warp_ * (kRows * 32) + r * 32 + thread_; }
  // What the values of this thread have got in each field since the last time.
  __device__ void Collect(uint32_t (&counts)[kRows][kFields]) {
    uint32_t counted[kRows];
    table_.TakeAlone(counted);
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      counts[r][0] = counted[r] & 0xFFFF;
      counts[r][1] = counted[r] >> 16;
    }
  }

  __device__ void WriteCounts(uint64_t group, uint32_t windows,
                              const uint32_t (&counts)[kRows][kFields]) const {
#pragma unroll
    for (uint32_t f = 0; f < kFields; ++f) {
      if (f >= windows) return;
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        args_.launch.counts[(group * kFields + f) * kByteValues + Value(r)] = counts[r][f];
      }
    }
  }

  // Sums of integers do not depend on their order.
  __device__ uint32_t* Partial(uint32_t warp, uint32_t field) const {
    return reinterpret_cast<uint32_t*>(byte_tables + kTablesBytes) +
           (team_ * kTeamWarps + warp) * kFields + field;
  }
  __device__ void AddUp(const uint32_t (&counts)[kRows][kFields]) const {
#pragma unroll
    for (uint32_t f = 0; f < kFields; ++f) {
      uint32_t sum = 0;
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        const auto count = static_cast<float>(counts[r][f]);
        sum += __float2uint_rn(args_.scale * count * __log2f(fmaxf(count, 1.0F)));
      }
      for (uint32_t step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllThreads, sum, step);
      if (thread_ == 0) *Partial(warp_, f) = sum;
    }
  }
  __device__ void WriteEntropy(uint64_t group, uint32_t windows) const {
    if (warp_ != 0 || thread_ >= windows) return;
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t w = 0; w < kTeamWarps; ++w) sum += *Partial(w, thread_);
    args_.entropy[group * kFields + thread_] =
        fmaxf(0.0F, args_.log2_bytes - static_cast<float>(sum) / args_.divisor);
  }

  const Windows& args_;
  const uint32_t thread_, warp_, team_, base_, addend_;
  uint4 loaded_[kVectors] = {};
  TeamTable<kTeamWarps> table_;
};

template <uint32_t kVectors>
__global__ void __launch_bounds__(kThreads, 1)
    ByteWindowsKernel(const __grid_constant__ Windows args) {
  CheckByteTables();
  Team<kVectors>(args).Run();
}

template <uint32_t kVectors>
absl::Status Enqueue(const Windows& args) {
  constexpr uint32_t kBytes = kTablesBytes + kTeams * kTeamWarps * kFields * sizeof(uint32_t);
  auto* const kernel = ByteWindowsKernel<kVectors>;
  HISTOGRAM_RETURN_IF_ERROR(AllowShared(kernel, kBytes));
  const uint64_t wanted = (args.launch.stretches + kFields - 1) / kFields;
  const auto blocks =
      static_cast<uint32_t>(std::min<uint64_t>(wanted, args.launch.device->multiprocessors));
  kernel<<<blocks, kThreads, kBytes, args.launch.stream>>>(args);
  return LaunchStatus("byte_windows");
}

}  // namespace

bool ByteWindowsTake(const RowsLaunch& launch) {
  return SampleBytes(launch.type) == 1 && launch.channels == 1 && launch.stride == 0 &&
         launch.begins == nullptr && HasByteTables(*launch.device) &&
         reinterpret_cast<uintptr_t>(launch.samples) % 16 == 0 && launch.step % 16 == 0 &&
         (launch.window == 1024 || launch.window == 2048 || launch.window == 4096);
}

absl::Status EnqueueByteWindows(const RowsLaunch& launch, float* entropy) {
  if (launch.stretches == 0) return absl::OkStatus();
  Windows args;
  args.launch = launch;
  args.entropy = entropy;
  const auto bytes = static_cast<float>(launch.window);
  args.log2_bytes = std::log2(bytes);
  // The greatest sum is that of a window of one value.
  args.scale = std::exp2(std::floor(std::log2(4e9F / (bytes * args.log2_bytes))));
  args.divisor = args.scale * bytes;
  if (launch.window == 4096) return Enqueue<4>(args);
  if (launch.window == 2048) return Enqueue<2>(args);
  return Enqueue<1>(args);
}

}  // namespace histogram::cuda
