/* Mistakes that only a kernel can see; see cuda_fault_slot. */
#ifndef TERN_BACKEND_CUDA_FAULT_CUH
#define TERN_BACKEND_CUDA_FAULT_CUH

#include "backend_cuda/cuda.h"
#include "backend_cuda/types.cuh"

namespace cuda
{

/* The first to come keeps the slot. It lies in the host's memory, where compare-and-swaps go one after the
 * other over the bus: a slot that is taken is only read, by a warp at once. Its kind comes last: the host may look
 * at it, and empty it, at any time, since it waits for one stream alone. */
__device__ __forceinline__ void note_fault(cuda_fault_slot *slot, unsigned kind, int64_t value,
                                           int64_t position, int64_t limit)
{
    if (*(volatile unsigned *)&slot->kind != 0u ||
        atomicCAS_system(&slot->kind, 0u, (unsigned)CUDA_FAULT_BUSY) != 0u)
        return;
    slot->value = value;
    slot->position = position;
    slot->limit = limit;
    __threadfence_system();
    *(volatile unsigned *)&slot->kind = kind;
}

__device__ __forceinline__ int64_t read_index(const void *indices, int wide, int64_t i)
{
    return wide ? ((const int64_t *)indices)[i] : (int64_t)((const int32_t *)indices)[i];
}

} // namespace cuda

#endif
