// What the machine can do at best, measured in the same run as the kernels.
#ifndef HISTOGRAM_BENCH_KERNELS_CEILINGS_H_
#define HISTOGRAM_BENCH_KERNELS_CEILINGS_H_

#include <cstdint>
#include <map>
#include <string>

#include "bench/kernels/harness.h"

namespace histogram::bench {

struct Ceilings {
  struct Read {
    double gbps = 0;
    std::string kernel;  // the fastest of three
  };
  std::map<uint64_t, Read> read;   // by bytes
  double memory_gbps = 0;          // what the device's memory clock and bus width say
  double copy_gbps = 0;            // device to device; bytes copied
  double host_to_device_gbps = 0;  // from pinned memory
  double null_launch_us = 0;       // plain launch and cudaStreamSynchronize, median
};

// Keeps the stream busy for so long, so that what is queued behind runs back to back.
void EnqueueHold(cudaStream_t stream, uint64_t ns);

Ceilings MeasureCeilings(Harness& harness, const std::vector<uint64_t>& read_bytes);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_CEILINGS_H_
