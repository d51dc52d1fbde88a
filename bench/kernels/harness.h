// What the GPU benchmarks share: one device's buffers, timing by events, exact results.
//
// A Harness belongs to one thread. Times are microseconds, rates gigabytes (1e9) per second.
#ifndef HISTOGRAM_BENCH_KERNELS_HARNESS_H_
#define HISTOGRAM_BENCH_KERNELS_HARNESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/backend/device_check.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/kernels/kernel.h"
#include "tests/kernels/payloads.h"

namespace histogram::bench {

using testing::Distribution;

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
// The input buffer is this long and repeats its pattern, so that every aligned region of a
// multiple of the pattern's length has the same counts.
inline constexpr uint64_t kInputBytes = kGiB;
inline constexpr uint64_t kPatternBytes = 16 * kMiB;

// Ends the program with a message: a benchmark that fails has no result.
[[noreturn]] void Die(const std::string& message);
void Check(const absl::Status& status);
void CheckCuda(cudaError_t error, const char* what);

double Median(std::vector<double> values);
double Percentile(std::vector<double> values, double percent);
inline double Gbps(uint64_t bytes, double us) { return static_cast<double>(bytes) / us * 1e-3; }

class Harness {
 public:
  // Ends the program, saying why, where there is no GPU.
  Harness();

  const cuda::Device& device() const { return device_; }
  const cuda::DeviceTraits& traits() const { return device_.traits; }
  cudaStream_t stream() const { return stream_.get(); }
  uint8_t* input() const { return input_.get(); }
  const std::vector<uint8_t>& pattern() const { return pattern_; }

  // Fills the whole input with repetitions of the pattern.
  void Fill(const std::vector<uint8_t>& pattern);

  // Median over `runs` of the time that `enqueue(run)` takes on the stream.
  double MedianUs(int runs, const std::function<void(int)>& enqueue);

  // A launch of the kernel over these payloads of the input.
  cuda::Launch MakeLaunch(const cuda::CudaKernel& kernel,
                          std::vector<cuda::PayloadDescriptor>& payloads);
  // As many runs as `runs`, each at another offset where the input is longer than the payload.
  // Returns the median.
  double TimeKernel(const cuda::CudaKernel& kernel, uint64_t bytes, int runs);
  // The same for a batch.
  double TimeBatch(const cuda::CudaKernel& kernel, std::vector<cuda::PayloadDescriptor>& payloads,
                   int runs);
  // Ends the program unless the kernel counts the first `bytes` exactly.
  void CheckKernel(const cuda::CudaKernel& kernel, uint64_t bytes);
  // Ends the program unless the rows of the batch are exact: some 4,096 of them, where it has more.
  void CheckBatch(const cuda::CudaKernel& kernel, std::vector<cuda::PayloadDescriptor>& payloads);

 private:
  std::vector<uint32_t> Expected(uint64_t offset, uint64_t bytes) const;

  cuda::Device device_;
  cuda::Stream stream_;
  std::vector<uint8_t> pattern_;
  // How often each value occurs in the first i * 4096 bytes of the pattern.
  std::vector<ValueCounts> prefix_;
  cuda::DeviceBuffer input_, rows_, descriptors_, scratch_, clean_;
  std::vector<cuda::Event> events_;
};

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_HARNESS_H_
