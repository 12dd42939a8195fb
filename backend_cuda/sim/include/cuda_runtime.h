/* The kernel language for simulated devices: what a .cu file of backend_cuda needs to compile with
 * a host C++ compiler. Threads of a block are fibers of one host thread (sim/block.c), so that a
 * plain variable is atomic between two waits. */
#ifndef TERN_SIM_CUDA_RUNTIME_H
#define TERN_SIM_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>
#include <sim_abi.h>

#include <math.h>
#include <string.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* One block runs at a time on a host thread. Also fits the one name for dynamic shared memory:
 * extern __shared__ __align__(16) unsigned char dyn_smem[]; */
#define __shared__ thread_local

extern SIM_HIDDEN uint3 threadIdx, blockIdx;
extern SIM_HIDDEN dim3 blockDim, gridDim;
constexpr int warpSize = 32;

/* ---- waiting --------------------------------------------------------------------------------- */

#define SIM_HERE                                                           \
    ([]() -> const sim_site * {                                            \
        static const sim_site here_ = { __FILE__, __LINE__, __COUNTER__ }; \
        return &here_;                                                     \
    }())

#define __syncthreads() sim_barrier(SIM_HERE)
#define __syncwarp(mask) ((void)sim_warp(SIM_HERE, SIM_SYNC, (mask), 0, 0, 32))
#define __ballot_sync(mask, test) \
    ((unsigned)sim_warp(SIM_HERE, SIM_BALLOT, (mask), (test) ? 1u : 0u, 0, 32))
#define __any_sync(mask, test) ((int)sim_warp(SIM_HERE, SIM_ANY, (mask), (test) ? 1u : 0u, 0, 32))
#define __all_sync(mask, test) ((int)sim_warp(SIM_HERE, SIM_ALL, (mask), (test) ? 1u : 0u, 0, 32))

template <typename T>
static inline T sim_shuffle(const sim_site *site, int kind, uint32_t mask, T value, int operand,
                            int width = 32)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "no type of a shuffle");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = sim_warp(site, kind, mask, bits, operand, width);
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(mask, ...) sim_shuffle(SIM_HERE, SIM_SHFL, (mask), __VA_ARGS__)
#define __shfl_up_sync(mask, ...) sim_shuffle(SIM_HERE, SIM_SHFL_UP, (mask), __VA_ARGS__)
#define __shfl_down_sync(mask, ...) sim_shuffle(SIM_HERE, SIM_SHFL_DOWN, (mask), __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) sim_shuffle(SIM_HERE, SIM_SHFL_XOR, (mask), __VA_ARGS__)

/* ---- atomics: fibers change only at waits ---------------------------------------------------- */

template <typename T> static inline T atomicAdd(T *at, T value)
{
    const T old = *at;
    *at = (T)(old + value);
    return old;
}
template <typename T> static inline T atomicMax(T *at, T value)
{
    const T old = *at;
    *at = old < value ? value : old;
    return old;
}
template <typename T> static inline T atomicMin(T *at, T value)
{
    const T old = *at;
    *at = value < old ? value : old;
    return old;
}
template <typename T> static inline T atomicExch(T *at, T value)
{
    const T old = *at;
    *at = value;
    return old;
}
template <typename T> static inline T atomicCAS(T *at, T expected, T value)
{
    const T old = *at;
    sim_compared(at);
    if (old == expected)
        *at = value;
    return old;
}
/* The host sees it, too. */
template <typename T> static inline T atomicCAS_system(T *at, T expected, T value)
{
    return atomicCAS(at, expected, value);
}
template <typename T> static inline T atomicOr(T *at, T value)
{
    const T old = *at;
    *at = (T)(old | value);
    return old;
}
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}
static inline void __threadfence_system(void)
{
    sim_system_fence();
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
/* Never one fma: the sources are compiled with -ffp-contract=off (cmake/cuda.cmake). */
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
template <typename T> static inline T __ldg(const T *at)
{
    return *at;
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* Where each argument lies in the packed ones: known to the compiler, because every thread of a launch
 * reads them, and where nothing is inlined (sanitizers, elementwise.cu) std::apply took longer than the kernels. */
template <typename... P> struct sim_layout {
    size_t at[sizeof...(P) + 1] = {}, bytes = 0;

    constexpr sim_layout()
    {
        int i = 0;
        ((at[i++] = bytes = (bytes + alignof(P) - 1) / alignof(P) * alignof(P), bytes += sizeof(P)),
         ...);
    }
};

template <typename... P> struct sim_packed {
    static constexpr sim_layout<P...> layout{};

    void (*kernel)(P...);
    alignas(16) char values[layout.bytes + 1];

    template <size_t... i> void call(std::index_sequence<i...>)
    {
        kernel(*(P *)(void *)(values + layout.at[i])...);
    }
    static void run(void *packed)
    {
        ((sim_packed *)packed)->call(std::index_sequence_for<P...>());
    }
};

template <typename T> static constexpr uint16_t sim_kind_of()
{
    if (!std::is_pointer<T>::value)
        return SIM_ARG_VALUE;
    return std::is_const<std::remove_pointer_t<T>>::value ? SIM_ARG_READ : SIM_ARG_WRITE;
}

template <typename P> static inline sim_arg sim_pack(char *packed, size_t at, P value)
{
    memcpy(packed + at, &value, sizeof value);
    return { (uint16_t)at, (uint16_t)sizeof value, sim_kind_of<P>() };
}

/* The standard launch (cuda_runtime.h since CUDA 11.8): arguments are converted to the kernel's
 * types, so that the simulator sees which pointers a kernel reads and which it may write. */
template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             A &&...args)
{
    static_assert((std::is_trivially_copyable<P>::value && ...),
                  "kernel arguments are copied as bytes");
    typedef sim_packed<P...> Packed;
    Packed packed = { kernel, {} };
    int i = 0;
    const size_t values = offsetof(Packed, values);
    const sim_arg list[sizeof...(P) + 1] = { sim_pack<P>(
        (char *)&packed, values + Packed::layout.at[i++], (P)args)... };
    const sim_launch launch = { (const void *)kernel, Packed::run, &packed,
                                sizeof packed,        list,        (int)sizeof...(P) };
    return sim_enqueue_kernel(config, &launch);
}

#endif
