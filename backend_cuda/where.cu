/* where: out = condition ? a : b; elements are moved, not computed, so that their size is all that
 * matters. A thread takes 16 bytes of tensors that lie alike without gaps, else one element of a walk. */
#include <string.h>

#include "backend_cuda/elementwise.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/walk.cuh"

using namespace cuda;

/* Bits of `numbers`: condition, a, b are numbers of the host. */
template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_where_walk(S *out, const bool8 *condition, const S *a, const S *b, bool8 number_condition,
                 S number_a, S number_b, int numbers, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        int64_t at[4];
        offsets<4>(walk, (uint32_t)i, at);
        const bool8 chosen = numbers & 1 ? number_condition : condition[at[1]];
        if (chosen.value != 0)
            out[at[0]] = numbers & 2 ? number_a : a[at[2]];
        else
            out[at[0]] = numbers & 4 ? number_b : b[at[3]];
    }
}

template <typename S>
__global__ void __launch_bounds__(BLOCK)
    k_where(S *out, const bool8 *condition, const S *a, const S *b, bool8 number_condition,
            S number_a, S number_b, int numbers, int64_t n)
{
    constexpr int N = 16 / (int)sizeof(S);
    for (int64_t i = first_item() * N; i < n; i += item_step() * N) {
        pack<bool8, N> chosen = {};
        pack<S, N> one = {}, other = {};
        if (!(numbers & 1))
            chosen = load_pack<bool8, N>(condition + i, n - i);
        if (!(numbers & 2))
            one = load_pack<S, N>(a + i, n - i);
        if (!(numbers & 4))
            other = load_pack<S, N>(b + i, n - i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const bool8 first = numbers & 1 ? number_condition : chosen.at[k];
            if (first.value != 0)
                one.at[k] = numbers & 2 ? number_a : one.at[k];
            else
                one.at[k] = numbers & 4 ? number_b : other.at[k];
        }
        store_pack(out + i, n - i, one);
    }
}

template <typename S> static S number_of(const cuda_number &number)
{
    return narrow<S>(number.whole ? (double)number.i : number.f);
}
template <> bool8 number_of<bool8>(const cuda_number &number)
{
    return { (uint8_t)(number.whole ? number.i != 0 : number.f != 0) };
}
template <> int64_t number_of<int64_t>(const cuda_number &number)
{
    return number.whole ? number.i : (int64_t)number.f;
}

template <typename S, typename M>
static cudaError_t launch(const cuda_where_args *w, cudaStream_t stream)
{
    int numbers = 0;
    M moved[2];
    for (int k = 0; k < 3; k++)
        numbers |= (w->number[k].given ? 1 : 0) << k;
    for (int k = 0; k < 2; k++) {
        const S value = number_of<S>(w->number[k + 1]);
        memcpy(&moved[k], &value, sizeof value);
    }
    if (w->linear) {
        constexpr int N = 16 / (int)sizeof(M);
        const int64_t n = w->walk->numel;
        const cudaLaunchConfig_t packs = shape_for((n + N - 1) / N, stream);
        return cudaLaunchKernelEx(&packs, k_where<M>, (M *)w->out, (const bool8 *)w->in[0],
                                  (const M *)w->in[1], (const M *)w->in[2],
                                  number_of<bool8>(w->number[0]), moved[0], moved[1], numbers, n);
    }
    const cudaLaunchConfig_t c = shape_for(w->walk->numel, stream);
    return cudaLaunchKernelEx(
        &c, k_where_walk<M>, (M *)w->out, (const bool8 *)w->in[0], (const M *)w->in[1],
        (const M *)w->in[2], number_of<bool8>(w->number[0]), moved[0], moved[1], numbers, *w->walk);
}

extern "C" cudaError_t cuda_launch_where(const cuda_where_args *w, cudaStream_t stream)
{
    switch (w->dtype) {
    case TERN_BOOL:
        return launch<bool8, uint8_t>(w, stream);
    case TERN_U8:
        return launch<uint8_t, uint8_t>(w, stream);
    case TERN_I8:
        return launch<int8_t, uint8_t>(w, stream);
    case TERN_I16:
        return launch<int16_t, uint16_t>(w, stream);
    case TERN_I32:
        return launch<int32_t, uint32_t>(w, stream);
    case TERN_I64:
        return launch<int64_t, uint64_t>(w, stream);
    case TERN_F16:
        return launch<__half, uint16_t>(w, stream);
    case TERN_BF16:
        return launch<__nv_bfloat16, uint16_t>(w, stream);
    case TERN_F32:
        return launch<float, uint32_t>(w, stream);
    default:
        return launch<double, uint64_t>(w, stream);
    }
}
