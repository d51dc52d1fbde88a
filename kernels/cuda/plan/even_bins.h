// Even bins as a device counts by them without a plan: a few numbers, which a launch takes along.
//
// Functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_PLAN_EVEN_BINS_H_
#define HISTOGRAM_KERNELS_CUDA_PLAN_EVEN_BINS_H_

#include <histogram/sample_type.h>

#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// Whether the counters and the thresholds of so many even bins fit a block's shared memory.
bool EvenBinsFit(SampleType type, uint32_t bins, const DeviceTraits& device);

// The bins of samples of a type between the edges. REQUIRES: EvenBinsFit, AreDistinct.
AnyTypedBins MakeEvenBins(SampleType type, const EvenEdges& edges);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_PLAN_EVEN_BINS_H_
