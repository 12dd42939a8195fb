/* Kernels of elementwise ops for one group of types.
 *
 * Tensors of any strides, one shape; out[i] = formula(a[i], b[i]), computed in T (f32 for half types),
 * rounded once. A thread takes 16 bytes at a time where all operands lie alike, else one element of a
 * walk. Deterministic. Bytes moved: one read per operand, one write. */
#ifndef TERN_BACKEND_CUDA_ELEMENTWISE_CUH
#define TERN_BACKEND_CUDA_ELEMENTWISE_CUH

#include "backend_cuda/elementwise.h"
#include "backend_cuda/pack.cuh"
#include "backend_cuda/walk.cuh"

#define FORMULA static __device__ __forceinline__
#include "backend_cpu/formulas.h"

namespace cuda
{

/* ---- what the formulas of elementwise.def are made of ---------------------------------------- */

#define BY_TYPE(name)                                     \
    __device__ __forceinline__ float fn_##name(float x)   \
    {                                                     \
        return f32_##name(x);                             \
    }                                                     \
    __device__ __forceinline__ double fn_##name(double x) \
    {                                                     \
        return f64_##name(x);                             \
    }
BY_TYPE(abs)
BY_TYPE(sqrt)
BY_TYPE(exp)
BY_TYPE(log)
BY_TYPE(tanh)
BY_TYPE(sigmoid)
BY_TYPE(gelu)
BY_TYPE(gelu_tanh)
BY_TYPE(silu)
BY_TYPE(gelu_slope)
BY_TYPE(gelu_tanh_slope)
BY_TYPE(silu_slope)
BY_TYPE(expm1)
BY_TYPE(log1p)
BY_TYPE(log2)
BY_TYPE(log10)
BY_TYPE(sin)
BY_TYPE(cos)
BY_TYPE(tan)
BY_TYPE(asin)
BY_TYPE(acos)
BY_TYPE(atan)
BY_TYPE(sinh)
BY_TYPE(cosh)
BY_TYPE(erf)
BY_TYPE(floor)
BY_TYPE(ceil)
BY_TYPE(rint)
BY_TYPE(trunc)
BY_TYPE(hardswish)
BY_TYPE(mish)
BY_TYPE(mish_slope)
#undef BY_TYPE

#define BY_TYPE_2(name)                                             \
    __device__ __forceinline__ float fn_##name(float x, float y)    \
    {                                                               \
        return f32_##name(x, y);                                    \
    }                                                               \
    __device__ __forceinline__ double fn_##name(double x, double y) \
    {                                                               \
        return f64_##name(x, y);                                    \
    }
BY_TYPE_2(binary_cross_entropy)
BY_TYPE_2(binary_cross_entropy_with_logits)
BY_TYPE_2(kl_div)
BY_TYPE_2(fmod)
BY_TYPE_2(floored)
BY_TYPE_2(atan2)
BY_TYPE_2(hypot)
#undef BY_TYPE_2

__device__ __forceinline__ float fn_pow(float a, float b)
{
    return f32_pow(a, b);
}
/* A GPU's pow is off by a bit even where the power is a itself. */
__device__ __forceinline__ double fn_pow(double a, double b)
{
    return b == 1 ? a : b == 2 ? a * a : f64_pow(a, b);
}

#define BY_TYPE_3(name)                                                       \
    __device__ __forceinline__ float fn_##name(float x, float p, float q)     \
    {                                                                         \
        return f32_##name(x, p, q);                                           \
    }                                                                         \
    __device__ __forceinline__ double fn_##name(double x, double p, double q) \
    {                                                                         \
        return f64_##name(x, p, q);                                           \
    }
BY_TYPE_3(quotient)
BY_TYPE_3(softplus)
BY_TYPE_3(softplus_slope)
BY_TYPE_3(huber)
BY_TYPE_3(huber_slope)
#undef BY_TYPE_3

/* Integers, in 32 bits where they fit. */
#define BY_WIDTH(name)                                                                   \
    template <typename T>                                                                \
    __device__ __forceinline__                                                           \
        typename std::enable_if<std::is_integral<T>::value, T>::type fn_##name(T a, T b) \
    {                                                                                    \
        if constexpr (sizeof(T) == 8)                                                    \
            return i64_##name(a, b);                                                     \
        else                                                                             \
            return (T)i32_##name(a, b);                                                  \
    }
BY_WIDTH(fmod)
BY_WIDTH(remainder)
BY_WIDTH(floor_div)
#undef BY_WIDTH

template <typename T> __device__ __forceinline__ bool is_negative(T x)
{
    if constexpr (std::is_unsigned<T>::value)
        return false;
    else
        return x < T(0);
}

/* A negative power of an integer is 0, but for 1 and -1; squaring wraps. */
template <typename T> __device__ __forceinline__ T integer_power(T a, T b)
{
    if (is_negative(b))
        return a == T(1) ? T(1) : (T)(a + T(1)) == T(0) && !(T(0) < a) ? T((b & 1) ? -1 : 1) : T(0);
    uint64_t result = 1, square = (uint64_t)(int64_t)a;
    for (uint64_t left = (uint64_t)b; left != 0; left >>= 1) {
        if (left & 1)
            result *= square;
        square *= square;
    }
    return (T)result;
}
#define INTEGER_POW(T)                            \
    __device__ __forceinline__ T fn_pow(T a, T b) \
    {                                             \
        return integer_power<T>(a, b);            \
    }
INTEGER_POW(uint8_t)
INTEGER_POW(int8_t)
INTEGER_POW(int16_t)
INTEGER_POW(int32_t)
INTEGER_POW(int64_t)
#undef INTEGER_POW

/* T computes, U is unsigned and at least as wide as int, so that integers wrap. */
template <typename S_> struct real_type {
    using S = S_;
    using T = real<S>;
    using U = T;
    static constexpr bool is_real = true;
    static __device__ __forceinline__ T load(S x)
    {
        return widen(x);
    }
    static __device__ __forceinline__ S store(T x)
    {
        return narrow<S>(x);
    }
    static __device__ __forceinline__ T sum(T a, T b)
    {
        return a + b;
    }
};

template <typename S_, typename U_> struct integer_type {
    using S = S_;
    using T = S;
    using U = U_;
    static constexpr bool is_real = false;
    static constexpr U ones = ~U(0);
    static __device__ __forceinline__ T load(S x)
    {
        return x;
    }
    static __device__ __forceinline__ S store(T x)
    {
        return x;
    }
    static __device__ __forceinline__ U sum(T a, T b)
    {
        return (U)a + (U)b;
    }
};

struct bool_type {
    using S = bool8;
    using T = uint8_t;
    using U = uint32_t;
    static constexpr bool is_real = false;
    static constexpr U ones = 1;
    static __device__ __forceinline__ T load(S x)
    {
        return x.value;
    }
    static __device__ __forceinline__ S store(T x)
    {
        return S{ x };
    }
    static __device__ __forceinline__ U sum(T a, T b)
    {
        return (U)(a | b);
    }
};

/* f_add<G>::run(a, b) */
#define FN(name) fn_##name
#define NEGATIVE(x) is_negative(x)
#define SUM(x, y) G::sum(x, y)
#define ONES G::ones
#define MOD(x, y) fn_fmod(x, y)
#define BITS (U)(8 * sizeof(T) - (is_negative(T(-1)) ? 1 : 0))
#define ARITY_PLAIN1 1
#define ARITY_CURVE1 1
#define ARITY_LANES1 1
#define ARITY_TEST 1
#define ARITY_PLAIN2 2
#define ARITY_CURVE2 2
#define ARITY_CHANCE2 2
#define ARITY_POWER2 2
#define ARITY_COMPARE 2
#define ARITY_DIVIDE2 2
#define ARITY_CURVE3 3
#define RESULT_PLAIN1(G) typename G::S
#define RESULT_CURVE1(G) typename G::S
#define RESULT_LANES1(G) typename G::S
#define RESULT_PLAIN2(G) typename G::S
#define RESULT_CURVE2(G) typename G::S
#define RESULT_CHANCE2(G) typename G::S
#define RESULT_POWER2(G) typename G::S
#define RESULT_DIVIDE2(G) typename G::S
#define RESULT_CURVE3(G) typename G::S
#define RESULT_TEST(G) bool8
#define RESULT_COMPARE(G) bool8
#define STORE_PLAIN1(G, x) G::store((typename G::T)(x))
#define STORE_CURVE1(G, x) G::store((typename G::T)(x))
#define STORE_LANES1(G, x) G::store((typename G::T)(x))
#define STORE_PLAIN2(G, x) G::store((typename G::T)(x))
#define STORE_CURVE2(G, x) G::store((typename G::T)(x))
#define STORE_CHANCE2(G, x) G::store((typename G::T)(x))
#define STORE_POWER2(G, x) G::store((typename G::T)(x))
#define STORE_DIVIDE2(G, x) G::store((typename G::T)(x))
#define STORE_CURVE3(G, x) G::store((typename G::T)(x))
#define STORE_TEST(G, x) \
    bool8                \
    {                    \
        (uint8_t)(x)     \
    }
#define STORE_COMPARE(G, x) STORE_TEST(G, x)
#define ELEMENT(name, shape, kinds, real, integer)                       \
    template <typename G> struct f_##name {                              \
        using T = typename G::T;                                         \
        using U = typename G::U;                                         \
        using R = RESULT_##shape(G);                                     \
        static constexpr int arity = ARITY_##shape;                      \
        static __device__ __forceinline__ R run(T a, T b, T c, T p, T q) \
        {                                                                \
            (void)a, (void)b, (void)c, (void)p, (void)q;                 \
            if constexpr (G::is_real)                                    \
                return STORE_##shape(G, real);                           \
            else                                                         \
                return STORE_##shape(G, integer);                        \
        }                                                                \
    };
#include "backend_cpu/elementwise.def"
#undef ELEMENT

/* ---- kernels --------------------------------------------------------------------------------- */

/* The third operand, of a row that has one. */
template <typename G> struct third_operand {
    const typename G::S *at; /* NULL: a number */
    typename G::T number;
};

template <typename F, typename G>
__device__ __forceinline__ typename G::T third_of(const third_operand<G> &third,
                                                  const typename G::S *from, int64_t i)
{
    if constexpr (F::arity == 3)
        return third.at == nullptr ? third.number : G::load(from[i]);
    else
        return typename G::T(0);
}

/* Which operands are numbers: bit 0: a, bit 1: b; and of which one element in memory serves all: bit 2, bit 3. */
template <typename F, typename G>
__global__ void __launch_bounds__(BLOCK)
    k_map_packs(typename F::R *out, const typename G::S *a, const typename G::S *b,
                third_operand<G> third, typename G::T number_a, typename G::T number_b, int numbers,
                typename G::T p, typename G::T q, int64_t n)
{
    using S = typename G::S;
    using R = typename F::R;
    constexpr int N = 16 / (int)sizeof(S);
    if (numbers & 4)
        number_a = G::load(a[0]);
    if (numbers & 8)
        number_b = G::load(b[0]);
    numbers |= numbers >> 2;
    for (int64_t i = first_item() * N; i < n; i += item_step() * N) {
        pack<S, N> x = {}, y = {}, w = {};
        pack<R, N> z = {};
        if (i + N > n) {
#pragma unroll 1
            for (int64_t k = i; k < n; k++)
                out[k] = F::run(numbers & 1 ? number_a : G::load(a[k]),
                                numbers & 2 ? number_b : G::load(b[k]),
                                third_of<F>(third, third.at, k), p, q);
            continue;
        }
        if (!(numbers & 1))
            x = *(const pack<S, N> *)(a + i);
        if (!(numbers & 2))
            y = *(const pack<S, N> *)(b + i);
        if (F::arity == 3 && third.at != nullptr)
            w = *(const pack<S, N> *)(third.at + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            z.at[k] = F::run(numbers & 1 ? number_a : G::load(x.at[k]),
                             numbers & 2 ? number_b : G::load(y.at[k]), third_of<F>(third, w.at, k),
                             p, q);
        *(pack<R, N> *)(out + i) = z;
    }
}

template <typename F, typename G>
__global__ void __launch_bounds__(BLOCK)
    k_map_walk(typename F::R *out, const typename G::S *a, const typename G::S *b,
               third_operand<G> third, typename G::T number_a, typename G::T number_b, int numbers,
               typename G::T p, typename G::T q, cuda_walk walk)
{
    for (int64_t i = first_item(); i < walk.numel; i += item_step()) {
        constexpr int N = F::arity == 3 ? 4 : 3;
        int64_t at[N];
        offsets<N>(walk, (uint32_t)i, at);
        out[at[0]] = F::run(numbers & 1 ? number_a : G::load(a[at[1]]),
                            numbers & 2 ? number_b : G::load(b[at[2]]),
                            third_of<F>(third, third.at, at[N - 1]), p, q);
    }
}

/* ---- launchers ------------------------------------------------------------------------------- */

template <typename T> inline T number_as(const cuda_number &number)
{
    return number.whole ? (T)number.i : (T)number.f;
}

template <typename G> inline typename G::T attr_as(const tern_attr_numbers &attr, int k)
{
    if constexpr (G::is_real)
        return (typename G::T)attr.f[k];
    else
        return (typename G::T)attr.i[k];
}

inline bool is_aligned(const void *p)
{
    return ((uintptr_t)p & 15u) == 0;
}

template <typename F, typename G>
static cudaError_t launch_map(const cuda_elements *e, cudaStream_t stream)
{
    using S = typename G::S;
    using R = typename F::R;
    const S *a = (const S *)e->in[0];
    const S *b = F::arity >= 2 ? (const S *)e->in[1] : nullptr;
    const int numbers = (a == nullptr ? 1 : 0) | (b == nullptr ? 2 : 0);
    const auto na = number_as<typename G::T>(e->number[0]);
    const auto nb = number_as<typename G::T>(e->number[1]);
    const third_operand<G> c = { F::arity == 3 ? (const S *)e->in[2] : nullptr,
                                 number_as<typename G::T>(e->number[2]) };
    const auto p = attr_as<G>(e->attr, 0), q = attr_as<G>(e->attr, 1);
    const int64_t n = e->walk->numel;
    if (e->linear && (e->singles & 1 || is_aligned(a)) && (e->singles & 2 || is_aligned(b)) &&
        is_aligned(c.at) && is_aligned(e->out)) {
        constexpr int N = 16 / (int)sizeof(S);
        const cudaLaunchConfig_t shape = shape_for((n + N - 1) / N, stream);
        return cudaLaunchKernelEx(&shape, k_map_packs<F, G>, (R *)e->out, a, b, c, na, nb,
                                  numbers | e->singles << 2, p, q, n);
    }
    const cudaLaunchConfig_t shape = shape_for(n, stream);
    return cudaLaunchKernelEx(&shape, k_map_walk<F, G>, (R *)e->out, a, b, c, na, nb, numbers, p, q,
                              *e->walk);
}

} // namespace cuda

#endif
