/* unscale: one pass over a gradient that tests and multiplies; f32 inside (f64 for f64). A thread takes
 * one element of a walk. scale_update: one thread. */
#include "backend_cuda/launch.h"
#include "backend_cuda/walk.cuh"

using namespace cuda;

/* The difference of an infinity or a NaN with itself is NaN. */
template <typename T> __device__ __forceinline__ bool is_not_finite(T value)
{
    return value - value != (T)0;
}

template <typename S>
__global__ void __launch_bounds__(BLOCK) k_unscale(S *g, cuda_walk walk, cuda_unscale_args a)
{
    using T = real<S>;
    const T factor = a.inverse != nullptr ? (T)*a.inverse : (T)1;
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[1];
        offsets<1>(walk, (uint32_t)i, at);
        const T value = widen(g[at[0]]);
        if (is_not_finite(value)) { /* often all: an atomic only while it would change something */
            *a.found = 1.0f;
            if (a.cause != nullptr && *(volatile int32_t *)a.cause > a.index)
                atomicMin(a.cause, a.index);
        }
        if (factor != (T)1)
            g[at[0]] = narrow<S>(value * factor);
    }
}

__device__ void move_scale(const cuda_scale_args &a, const tern_attr_scale &o)
{
    const int32_t good = *a.tracker + 1;
    if (*a.found != 0.0f) {
        *a.scale = (float)((double)*a.scale * o.backoff);
        *a.tracker = 0;
    } else if (good == o.interval) {
        const float grown = (float)((double)*a.scale * o.growth);
        if (!is_not_finite(grown))
            *a.scale = grown;
        *a.tracker = 0;
    } else {
        *a.tracker = good;
    }
}

__global__ void __launch_bounds__(1) k_scale_update(cuda_scale_args a, tern_attr_scale o)
{
    if (!o.keep)
        move_scale(a, o);
    if (a.log == nullptr)
        return;
    const float skipped = a.skipped != nullptr ? *a.skipped : 0.0f;
    const float cause = a.cause != nullptr ? (float)*a.cause : -1.0f;
    a.log[3 * o.slot] = skipped;
    a.log[3 * o.slot + 1] = *a.scale;
    a.log[3 * o.slot + 2] = cause;
    a.log[a.log_numel - 2] += skipped;
    if (skipped > 0.0f)
        a.log[a.log_numel - 1] = cause;
}

extern "C" cudaError_t cuda_launch_unscale(const cuda_unscale_args *a, cudaStream_t stream)
{
    return float_switch(a->dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(a->walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_unscale<S>, (S *)a->g, *a->walk, *a);
    });
}

extern "C" cudaError_t cuda_launch_scale_update(const cuda_scale_args *a,
                                                const tern_attr_scale *attr, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(1, 1, stream);
    return cudaLaunchKernelEx(&c, k_scale_update, *a, *attr);
}
