#include "bench/kernels/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/kernels/ceilings.h"
#include "kernels/cuda/base/cuda_status.h"

namespace histogram::bench {
namespace {

constexpr uint64_t kPayloadsMax = kInputBytes / kKiB;
constexpr uint64_t kPrefixStep = 4096;
constexpr int kRunsMax = 64;
// Inputs of consecutive runs begin at least an eighth of this apart, where the buffer has room.
constexpr uint64_t kColdBytes = 256 * kMiB;

template <typename T>
T Take(absl::StatusOr<T> made) {
  Check(made.status());
  return *std::move(made);
}

}  // namespace

void Die(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}

void CheckCuda(cudaError_t error, const char* what) { Check(cuda::ToStatus(error, what)); }

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(percent / 100 * static_cast<double>(values.size()));
  return values[std::min(rank, values.size() - 1)];
}

double Median(std::vector<double> values) { return Percentile(std::move(values), 50); }

Harness::Harness() {
  std::vector<std::string> notes;
  const std::vector<cuda::Device> devices = cuda::FindDevices(cuda::FaultPlan(), notes);
  if (devices.empty()) Die("no GPU can be used: " + absl::StrJoin(notes, "; "));
  device_ = devices.front();
  CheckCuda(cudaSetDevice(device_.traits.index), "cudaSetDevice");
  Check(cuda::PrepareKernels(device_.traits));
  stream_ = Take(cuda::MakeStream());
  input_ = Take(cuda::DeviceBuffer::Make(kInputBytes));
  rows_ = Take(cuda::DeviceBuffer::Make(kPayloadsMax * cuda::kRowBytes));
  descriptors_ = Take(cuda::DeviceBuffer::Make(sizeof(cuda::BatchHeader) +
                                               kPayloadsMax * sizeof(cuda::PayloadDescriptor)));
  scratch_ = Take(cuda::DeviceBuffer::Make(cuda::ScratchBytesMax(device_.traits, kInputBytes)));
  clean_ = Take(cuda::DeviceBuffer::Make(cuda::CleanBytesMax(device_.traits)));
  for (int i = 0; i < 2 * kRunsMax; ++i) events_.push_back(Take(cuda::MakeEvent(0)));
}

void Harness::Fill(const std::vector<uint8_t>& pattern) {
  if (pattern.size() != kPatternBytes) Die("a pattern of the wrong length");
  pattern_ = pattern;
  prefix_.assign(1, ValueCounts{});
  for (uint64_t at = 0; at < kPatternBytes; at += kPrefixStep) {
    ValueCounts counts = prefix_.back();
    for (uint64_t i = at; i < at + kPrefixStep; ++i) ++counts[pattern[i]];
    prefix_.push_back(counts);
  }
  CheckCuda(cudaMemcpy(input_.get(), pattern.data(), kPatternBytes, cudaMemcpyHostToDevice),
            "upload of a pattern");
  for (uint64_t filled = kPatternBytes; filled < kInputBytes; filled *= 2) {
    CheckCuda(cudaMemcpy(input_.get(filled), input_.get(), filled, cudaMemcpyDeviceToDevice),
              "repetition of a pattern");
  }
  CheckCuda(cudaDeviceSynchronize(), "repetition of a pattern");
}

double Harness::MedianUs(int runs, const std::function<void(int)>& enqueue) {
  runs = std::min(runs, kRunsMax);
  for (int warm_up = 0; warm_up < 2; ++warm_up) enqueue(warm_up);
  // Long enough for the host to queue every run before the first of them starts.
  EnqueueHold(stream(), 200'000 + static_cast<uint64_t>(runs) * 20'000);
  for (int run = 0; run < runs; ++run) {
    const size_t first = size_t{2} * static_cast<size_t>(run);
    CheckCuda(cudaEventRecord(events_[first].get(), stream()), "cudaEventRecord");
    enqueue(run);
    CheckCuda(cudaEventRecord(events_[first + 1].get(), stream()), "cudaEventRecord");
  }
  CheckCuda(cudaStreamSynchronize(stream()), "a timed run");
  std::vector<double> times;
  for (int run = 0; run < runs; ++run) {
    float ms = 0;
    const size_t first = size_t{2} * static_cast<size_t>(run);
    CheckCuda(cudaEventElapsedTime(&ms, events_[first].get(), events_[first + 1].get()),
              "cudaEventElapsedTime");
    times.push_back(ms * 1e3);
  }
  return Median(times);
}

cuda::Launch Harness::MakeLaunch(const cuda::CudaKernel& kernel,
                                 std::vector<cuda::PayloadDescriptor>& payloads) {
  const uint32_t units = cuda::AssignUnits(absl::MakeSpan(payloads), kernel.payload_overhead_units);
  const cuda::BatchHeader header = {static_cast<uint32_t>(payloads.size()), units, 1, 0};
  CheckCuda(cudaMemcpy(descriptors_.get(), &header, sizeof(header), cudaMemcpyHostToDevice),
            "upload of a header");
  CheckCuda(cudaMemcpy(descriptors_.get(sizeof(header)), payloads.data(),
                       payloads.size() * sizeof(payloads[0]), cudaMemcpyHostToDevice),
            "upload of descriptors");
  cuda::Launch launch;
  launch.input = input();
  launch.header = descriptors_.get<cuda::BatchHeader>();
  launch.payloads = payloads;
  launch.units = units;
  launch.rows = rows_.get<uint32_t>();
  launch.scratch = scratch_.get();
  launch.clean = clean_.get();
  launch.device = &device_.traits;
  launch.stream = stream();
  return launch;
}

double Harness::TimeKernel(const cuda::CudaKernel& kernel, uint64_t bytes, int runs) {
  std::vector<cuda::PayloadDescriptor> payloads = {{0, static_cast<uint32_t>(bytes), 0}};
  cuda::Launch launch = MakeLaunch(kernel, payloads);
  // Consecutive runs read regions that are not in the cache.
  const uint64_t step = std::max(bytes, kColdBytes / 8);
  const uint64_t regions = std::max<uint64_t>(1, (kInputBytes - bytes) / step + 1);
  return MedianUs(runs, [&](int run) {
    launch.input = input() + (static_cast<uint64_t>(run) % regions) * step;
    Check(kernel.Enqueue(launch));
  });
}

double Harness::TimeBatch(const cuda::CudaKernel& kernel,
                          std::vector<cuda::PayloadDescriptor>& payloads, int runs) {
  const cuda::Launch launch = MakeLaunch(kernel, payloads);
  return MedianUs(runs, [&](int /*run*/) { Check(kernel.Enqueue(launch)); });
}

std::vector<uint32_t> Harness::Expected(uint64_t offset, uint64_t bytes) const {
  std::vector<uint32_t> values(kByteValues);
  // Whole steps by the prefix sums, the rest byte by byte.
  for (uint64_t at = offset; at < offset + bytes;) {
    const uint64_t in_pattern = at % kPatternBytes;
    const uint64_t left = std::min(offset + bytes - at, kPatternBytes - in_pattern);
    if (in_pattern % kPrefixStep == 0 && left >= kPrefixStep) {
      const uint64_t steps = left / kPrefixStep;
      const ValueCounts& from = prefix_[in_pattern / kPrefixStep];
      const ValueCounts& to = prefix_[in_pattern / kPrefixStep + steps];
      for (uint32_t v = 0; v < kByteValues; ++v)
        values[v] += static_cast<uint32_t>(to[v] - from[v]);
      at += steps * kPrefixStep;
      continue;
    }
    const uint64_t single = std::min(left, kPrefixStep - in_pattern % kPrefixStep);
    for (uint64_t i = 0; i < single; ++i) ++values[pattern_[in_pattern + i]];
    at += single;
  }
  return values;
}

void Harness::CheckKernel(const cuda::CudaKernel& kernel, uint64_t bytes) {
  std::vector<cuda::PayloadDescriptor> payloads = {{0, static_cast<uint32_t>(bytes), 0}};
  cuda::Launch launch = MakeLaunch(kernel, payloads);
  CheckCuda(cudaMemset(launch.rows, 0xA5, cuda::kRowBytes), "cudaMemset");
  CheckCuda(cudaDeviceSynchronize(), "cudaMemset");
  Check(kernel.Enqueue(launch));
  CheckCuda(cudaStreamSynchronize(stream()), "a checked run");
  std::vector<uint32_t> row(kByteValues);
  CheckCuda(cudaMemcpy(row.data(), launch.rows, cuda::kRowBytes, cudaMemcpyDeviceToHost), "a row");
  if (row != Expected(0, bytes)) {
    Die(absl::StrCat(std::string(kernel.name), " counts ", bytes, " bytes wrong"));
  }
}

void Harness::CheckBatch(const cuda::CudaKernel& kernel,
                         std::vector<cuda::PayloadDescriptor>& payloads) {
  const cuda::Launch launch = MakeLaunch(kernel, payloads);
  CheckCuda(cudaMemset(launch.rows, 0xA5, payloads.size() * cuda::kRowBytes), "cudaMemset");
  CheckCuda(cudaDeviceSynchronize(), "cudaMemset");
  Check(kernel.Enqueue(launch));
  CheckCuda(cudaStreamSynchronize(stream()), "a checked batch");
  std::vector<uint32_t> rows(payloads.size() * kByteValues);
  CheckCuda(cudaMemcpy(rows.data(), launch.rows, rows.size() * 4, cudaMemcpyDeviceToHost), "rows");
  // Of many payloads at even distances, and the last.
  const size_t step = std::max<size_t>(1, payloads.size() / 4096);
  for (size_t i = 0; i < payloads.size(); i += i + step < payloads.size() ? step : 1) {
    const std::vector<uint32_t> expected = Expected(payloads[i].offset, payloads[i].bytes);
    if (!std::equal(expected.begin(), expected.end(), rows.begin() + i * kByteValues)) {
      Die(absl::StrCat(std::string(kernel.name), " counts payload ", i, " of ", payloads.size(),
                       " wrong"));
    }
  }
}

}  // namespace histogram::bench
