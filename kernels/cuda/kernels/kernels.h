// The constructors of the registry's kernels; each is defined in the folder of its name.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_KERNELS_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_KERNELS_H_

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

const CudaKernel& NaiveElement();
const CudaKernel& NaiveSection();
const CudaKernel& NaiveInterleaved();
const CudaKernel& GlobalPrivate();
const CudaKernel& SharedPrivate();
const CudaKernel& SharedSection();
const CudaKernel& RegisterPrivate();
const CudaKernel& RunAccumulator();
const CudaKernel& PackedThread();
const CudaKernel& CubHistogram();
const CudaKernel& LanePrivate();
const CudaKernel& WarpBatch();
const CudaKernel& QuadBatch();
const CudaKernel& OneBlock();

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_KERNELS_H_
