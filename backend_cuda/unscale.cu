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
__global__ void __launch_bounds__(BLOCK)
    k_unscale(S *g, cuda_walk walk, const float *inverse, float *found)
{
    using T = real<S>;
    const T factor = (T)*inverse;
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[1];
        offsets<1>(walk, (uint32_t)i, at);
        const T value = widen(g[at[0]]);
        if (is_not_finite(value))
            atomicExch(found, 1.0f);
        if (factor != (T)1)
            g[at[0]] = narrow<S>(value * factor);
    }
}

__global__ void __launch_bounds__(1)
    k_scale_update(float *scale, int32_t *tracker, const float *found, tern_attr_scale a)
{
    const int32_t good = *tracker + 1;
    if (*found != 0.0f) {
        *scale = (float)((double)*scale * a.backoff);
        *tracker = 0;
    } else if (good == a.interval) {
        const float grown = (float)((double)*scale * a.growth);
        if (!is_not_finite(grown))
            *scale = grown;
        *tracker = 0;
    } else {
        *tracker = good;
    }
}

extern "C" cudaError_t cuda_launch_unscale(void *g, int dtype, const cuda_walk *walk,
                                           const float *inverse, float *found, cudaStream_t stream)
{
    return float_switch(dtype, [&](auto zero) {
        using S = decltype(zero);
        const cudaLaunchConfig_t c = shape_for(walk->numel, stream);
        return cudaLaunchKernelEx(&c, k_unscale<S>, (S *)g, *walk, inverse, found);
    });
}

extern "C" cudaError_t cuda_launch_scale_update(float *scale, int32_t *tracker, const float *found,
                                                const tern_attr_scale *attr, cudaStream_t stream)
{
    const cudaLaunchConfig_t c = shape(1, 1, stream);
    return cudaLaunchKernelEx(&c, k_scale_update, scale, tracker, found, *attr);
}
