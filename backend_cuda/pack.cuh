/* Elements that lie beside each other, moved as one where they can be: of up to 16 bytes. */
#ifndef TERN_BACKEND_CUDA_PACK_CUH
#define TERN_BACKEND_CUDA_PACK_CUH

#include "backend_cuda/types.cuh"

namespace cuda
{

template <typename S, int N> struct alignas(sizeof(S) * N) pack {
    S at[N];
};

template <typename S, int N> __device__ __forceinline__ bool is_pack(const S *p, int64_t left)
{
    return left >= N && ((uintptr_t)p & (sizeof(pack<S, N>) - 1)) == 0;
}

/* The N elements from p on, or the `left` that there are. */
template <typename S, int N>
__device__ __forceinline__ pack<S, N> load_pack(const S *p, int64_t left)
{
    pack<S, N> some = {};
    if (is_pack<S, N>(p, left))
        return *(const pack<S, N> *)p;
    for (int k = 0; k < N && k < left; k++)
        some.at[k] = p[k];
    return some;
}

template <typename S, int N>
__device__ __forceinline__ void store_pack(S *p, int64_t left, const pack<S, N> &some)
{
    if (is_pack<S, N>(p, left)) {
        *(pack<S, N> *)p = some;
        return;
    }
    for (int k = 0; k < N && k < left; k++)
        p[k] = some.at[k];
}

} // namespace cuda

#endif
