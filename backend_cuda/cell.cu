/* Recurrent cells: a thread takes one element of H of one row, with all of its gates. f32 inside (f64 for f64),
 * rounded once. Operands have no gaps. */
#include "backend_cuda/formulas.cuh"
#include "backend_cuda/launch.h"
#include "backend_cuda/types.cuh"

using namespace cuda;

/* Gate `gate` of an operand of `width` gates a row, at element k of row `row`. */
template <typename S> struct cell_rows {
    int64_t row, k, size;
    __device__ __forceinline__ S &at(void *operand, int width, int gate) const
    {
        return ((S *)operand)[(row * width + gate) * size + k];
    }
    __device__ __forceinline__ real<S> get(void *operand, int width, int gate) const
    {
        return widen(at(operand, width, gate));
    }
    template <typename T>
    __device__ __forceinline__ void put(void *operand, int width, int gate, T value) const
    {
        at(operand, width, gate) = narrow<S>(value);
    }
};

template <typename S> __global__ void __launch_bounds__(BLOCK) k_lstm_cell(cuda_cell_args a)
{
    using T = real<S>;
    for (int64_t e = first_item(); e < a.n * a.size; e += item_step()) {
        const cell_rows<S> c = { e / a.size, e % a.size, a.size };
        const T i = sigmoid_of(c.get(a.at[0], 4, 0) + c.get(a.at[1], 4, 0));
        const T f = sigmoid_of(c.get(a.at[0], 4, 1) + c.get(a.at[1], 4, 1));
        const T g = tanh_of(c.get(a.at[0], 4, 2) + c.get(a.at[1], 4, 2));
        const T o = sigmoid_of(c.get(a.at[0], 4, 3) + c.get(a.at[1], 4, 3));
        const T state = f * c.get(a.at[2], 1, 0) + i * g;
        c.put(a.at[0], 4, 0, i);
        c.put(a.at[0], 4, 1, f);
        c.put(a.at[0], 4, 2, g);
        c.put(a.at[0], 4, 3, o);
        c.put(a.at[3], 1, 0, state);
        c.put(a.at[4], 1, 0, o * tanh_of(state));
    }
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_lstm_cell_grad(cuda_cell_args a)
{
    using T = real<S>;
    const T one = 1;
    for (int64_t e = first_item(); e < a.n * a.size; e += item_step()) {
        const cell_rows<S> c = { e / a.size, e % a.size, a.size };
        const T i = c.get(a.at[0], 4, 0), f = c.get(a.at[0], 4, 1), g = c.get(a.at[0], 4, 2);
        const T o = c.get(a.at[0], 4, 3), dh = c.get(a.at[3], 1, 0);
        const T tanh_c = tanh_of(c.get(a.at[2], 1, 0));
        const T slope = c.get(a.at[4], 1, 0) + dh * o * (one - tanh_c * tanh_c);
        c.put(a.at[5], 4, 0, slope * g * i * (one - i));
        c.put(a.at[5], 4, 1, slope * c.get(a.at[1], 1, 0) * f * (one - f));
        c.put(a.at[5], 4, 2, slope * i * (one - g * g));
        c.put(a.at[5], 4, 3, dh * tanh_c * o * (one - o));
        c.put(a.at[4], 1, 0, slope * f);
    }
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_gru_cell(cuda_cell_args a)
{
    using T = real<S>;
    for (int64_t e = first_item(); e < a.n * a.size; e += item_step()) {
        const cell_rows<S> c = { e / a.size, e % a.size, a.size };
        const T r = sigmoid_of(c.get(a.at[0], 3, 0) + c.get(a.at[1], 3, 0));
        const T z = sigmoid_of(c.get(a.at[0], 3, 1) + c.get(a.at[1], 3, 1));
        const T hidden = c.get(a.at[1], 3, 2);
        const T fresh = tanh_of(c.get(a.at[0], 3, 2) + r * hidden);
        c.put(a.at[3], 4, 0, r);
        c.put(a.at[3], 4, 1, z);
        c.put(a.at[3], 4, 2, fresh);
        c.put(a.at[3], 4, 3, hidden);
        c.put(a.at[4], 1, 0, fresh + z * (c.get(a.at[2], 1, 0) - fresh));
    }
}

template <typename S> __global__ void __launch_bounds__(BLOCK) k_gru_cell_grad(cuda_cell_args a)
{
    using T = real<S>;
    const T one = 1;
    for (int64_t e = first_item(); e < a.n * a.size; e += item_step()) {
        const cell_rows<S> c = { e / a.size, e % a.size, a.size };
        const T r = c.get(a.at[0], 4, 0), z = c.get(a.at[0], 4, 1), fresh = c.get(a.at[0], 4, 2);
        const T slope = c.get(a.at[2], 1, 0);
        const T in_n = slope * (one - z) * (one - fresh * fresh);
        const T in_r = in_n * c.get(a.at[0], 4, 3) * r * (one - r);
        const T in_z = slope * (c.get(a.at[1], 1, 0) - fresh) * z * (one - z);
        c.put(a.at[3], 3, 0, in_r);
        c.put(a.at[3], 3, 1, in_z);
        c.put(a.at[3], 3, 2, in_n);
        c.put(a.at[4], 3, 0, in_r);
        c.put(a.at[4], 3, 1, in_z);
        c.put(a.at[4], 3, 2, in_n * r);
        c.put(a.at[2], 1, 0, slope * z);
    }
}

#define LAUNCHER(name)                                                                      \
    extern "C" cudaError_t cuda_launch_##name(const cuda_cell_args *a, cudaStream_t stream) \
    {                                                                                       \
        return float_switch(a->dtype, [&](auto zero) {                                      \
            const cudaLaunchConfig_t c = shape_for(a->n * a->size, stream);                 \
            return cudaLaunchKernelEx(&c, k_##name<decltype(zero)>, *a);                    \
        });                                                                                 \
    }
LAUNCHER(lstm_cell)
LAUNCHER(lstm_cell_grad)
LAUNCHER(gru_cell)
LAUNCHER(gru_cell_grad)
