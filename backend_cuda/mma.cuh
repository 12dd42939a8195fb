/* Products of tensor cores: m16n8k16 of half types into f32, and loads of their fragments. Lane l holds, with
 * row = l / 4 and pair = 2 (l % 4): of the result (row, pair..+1), then row + 8; of A the same at k = pair, then at
 * k = pair + 8; of B (k = pair..+1, column l / 4), then k + 8. Simulated devices exchange what lanes hold in that layout. */
#ifndef TERN_BACKEND_CUDA_MMA_CUH
#define TERN_BACKEND_CUDA_MMA_CUH

#include <string.h>
#include <type_traits>

#include "backend_cuda/pack.cuh"
#include "backend_cuda/reduce.cuh"

namespace cuda
{

template <typename S> __device__ __forceinline__ uint32_t pair_of(float x, float y)
{
    const pack<S, 2> both = { { narrow<S>(x), narrow<S>(y) } };
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

#ifndef TERN_SIM_CUDA_RUNTIME_H

/* Of older devices nothing is called (cuda_attention_half_runs). */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MMA(...) asm volatile(__VA_ARGS__)
#else
#define MMA(...) __trap()
#endif

/* c += a b */
template <typename S>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if (std::is_same<S, __half>::value)
        MMA("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        MMA("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices of 8 x 8: lane l gives where row l % 8 of matrix l / 8 begins, 16 bytes of shared memory. It gets of
 * each the elements (l / 4, 2 (l % 4)..+1); turned: of each transposed. */
template <bool TURNED>
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *row)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    (void)at; /* of older devices */
    if (TURNED)
        MMA("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
            : "r"(at)
            : "memory");
    else
        MMA("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
            : "r"(at)
            : "memory");
}
#undef MMA

#else

struct sim_operands {
    uint32_t a[4], b[2];
};

template <typename S> static inline float sim_half(uint32_t bits, int which)
{
    const uint16_t part = (uint16_t)(bits >> 16 * which);
    S x;
    memcpy(&x, &part, sizeof x);
    return widen(x);
}

template <typename S>
static inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    static thread_local sim_operands all[1024];
    const int lane = (int)threadIdx.x % 32;
    sim_operands *warp = all + ((int)threadIdx.x - lane);
    warp[lane] = { { a[0], a[1], a[2], a[3] }, { b0, b1 } };
    __syncwarp(FULL_MASK);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            const sim_operands &x = warp[lane / 4 * 4 + k % 8 / 2];
            const sim_operands &y = warp[(2 * (lane % 4) + i % 2) * 4 + k % 8 / 2];
            c[i] += sim_half<S>(x.a[i / 2 + k / 8 * 2], k % 2) * sim_half<S>(y.b[k / 8], k % 2);
        }
    __syncwarp(FULL_MASK);
}

template <bool TURNED> static inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    static thread_local const void *all[1024];
    const int lane = (int)threadIdx.x % 32;
    const void **warp = all + ((int)threadIdx.x - lane);
    warp[lane] = row;
    __syncwarp(FULL_MASK);
    for (int m = 0; m < 4; m++) {
        uint16_t part[2];
        for (int i = 0; i < 2; i++) {
            const int near = lane / 4, far = 2 * (lane % 4) + i;
            part[i] = ((const uint16_t *)warp[8 * m + (TURNED ? far : near)])[TURNED ? near : far];
        }
        r[m] = (uint32_t)part[1] << 16 | part[0];
    }
    __syncwarp(FULL_MASK);
}

#endif

} // namespace cuda

#endif
