/* What all CPU kernels share: the choice of instruction set, threads, flushing of denormals,
 * conversion between dtypes, walking over strided operands, random bits.
 *
 * A kernel is `tern_status_t cpu_<op>(const tern_call *call)` (backend_cpu/kernels.h). What is
 * worth compiling for several instruction sets lies in backend_cpu/isa/ *.c: such a file names its
 * functions CPU_ISA_NAME(cpu_x), here they are declared by CPU_ISA_DECLARE and called through
 * CPU_ISA_PICK(cpu_x), which gives the variant of this CPU. */
#ifndef TERN_BACKEND_CPU_CPU_H
#define TERN_BACKEND_CPU_CPU_H

#include <stdint.h>
#include <string.h>

#include "tern/plugin.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* ---- instruction sets ------------------------------------------------------------------------ */

enum { CPU_ISA_BASE = 1, CPU_ISA_AVX2 = 2, CPU_ISA_AVX512 = 3 };

/* The best instruction set that the CPU, the system and the build have, at most what TERN_CPU_ISA
 * (base, avx2, avx512) says. Decided at the first call and then constant. */
extern int cpu_isa_chosen __attribute__((visibility("hidden"))); /* 0: not yet; see cpu_isa() */
int cpu_isa_choose(void);
static inline int cpu_isa(void)
{
    const int isa = __atomic_load_n(&cpu_isa_chosen, __ATOMIC_RELAXED);
    return __builtin_expect(isa != 0, 1) ? isa : cpu_isa_choose();
}
/* "base", "avx2" or "avx512". */
const char *cpu_isa_name(int isa);

/* CPU_ISA_NAME(cpu_x) is cpu_x_avx512 and so on in backend_cpu/isa/ (the build sets CPU_ISA). */
#define CPU_ISA_PASTE_(name, isa) name##_##isa
#define CPU_ISA_PASTE(name, isa) CPU_ISA_PASTE_(name, isa)
#define CPU_ISA_NAME(name) CPU_ISA_PASTE(name, CPU_ISA)

#if defined(TERN_HAVE_X86_ISAS)
#define CPU_ISA_DECLARE(result, name, ...) \
    result name##_base(__VA_ARGS__);       \
    result name##_avx2(__VA_ARGS__);       \
    result name##_avx512(__VA_ARGS__)
#define CPU_ISA_DECLARE_TABLE(type, name, count) \
    extern type name##_base[count], name##_avx2[count], name##_avx512[count]
#define CPU_ISA_PICK(name)                       \
    (cpu_isa() == CPU_ISA_AVX512 ? name##_avx512 \
     : cpu_isa() == CPU_ISA_AVX2 ? name##_avx2   \
                                 : name##_base)
#else
#define CPU_ISA_DECLARE(result, name, ...) result name##_base(__VA_ARGS__)
#define CPU_ISA_DECLARE_TABLE(type, name, count) extern type name##_base[count]
#define CPU_ISA_PICK(name) (name##_base)
#endif

/* Loops over distinct or exactly equal arrays: tells the compiler that no element depends on
 * another one, so that it needs no overlap test. CPU_BY_FOUR also asks for four vectors at a time, for loops of a few
 * instructions that wait for memory (Adam of 64 MB 0.97 of the time on Intel). */
#if defined(__clang__)
/* Where such a loop calls a library function it stays scalar, which is no mistake. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define CPU_BY_FOUR CPU_INDEPENDENT
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#define CPU_BY_FOUR CPU_INDEPENDENT _Pragma("GCC unroll 4")
#endif

/* ---- denormals ------------------------------------------------------------------------------- */

/* While a big kernel runs, denormal operands and results count as zero (one is up to 200 times
 * slower). Returns what cpu_flush_end restores. cpu_parallel does this in every thread; loops over a few
 * hundred elements that lie side by side do not, since it would cost more than they do: whether denormals
 * survive is the one thing in which results may depend on size and layout (tern/ops.h). */
static inline uint32_t cpu_flush_begin(void)
{
#if defined(__SSE2__)
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* FTZ, DAZ */
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (1u << 24)));
    return (uint32_t)before;
#else
    return 0;
#endif
}

static inline void cpu_flush_end(uint32_t before)
{
#if defined(__SSE2__)
    _mm_setcsr(before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before));
#else
    (void)before;
#endif
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* a * b, both from 0 on, or CPU_TOO_MANY, which no memory holds. */
#define CPU_TOO_MANY ((int64_t)1 << 60)
static inline int64_t cpu_times(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) || c > CPU_TOO_MANY ? CPU_TOO_MANY : c;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* How many threads a kernel should use that moves `bytes` and does `flops` simple vectorised
 * operations (an exp counts as about 20): 1 below CPU_PARALLEL_BYTES or CPU_PARALLEL_FLOPS, else
 * call->threads. 1 inside another parallel region. */
enum {
    CPU_PARALLEL_BYTES = 1 << 19, /* 5 to 20 us of work: starting a team costs 1 us, 60 asleep */
    CPU_PARALLEL_FLOPS = 1 << 19
};
int cpu_threads(const tern_call *call, int64_t bytes, int64_t flops);

/* Calls run(context, begin, end) for consecutive ranges that cover 0 .. count, each but the last of
 * a length that is a multiple of `grain`, on up to `threads` threads; with 1, once with the whole.
 * Idle threads take the next range, so that one that is kept from running delays only what it has.
 * Denormals are flushed meanwhile. What a range computes must not depend on where ranges end. */
typedef void (*cpu_range_fn)(void *context, int64_t begin, int64_t end);
void cpu_parallel(int threads, int64_t count, int64_t grain, cpu_range_fn run, void *context);

/* ---- views ----------------------------------------------------------------------------------- */

static inline bool cpu_is_contiguous(const tern_view *v)
{
    return (v->flags & TERN_VIEW_CONTIGUOUS) != 0;
}

/* Bytes per element of a valid dtype. */
static inline int64_t cpu_dtype_size(int dtype)
{
    static const uint8_t sizes[TERN_DTYPES] = { 0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8 };
    return sizes[dtype];
}

/* Both dense and element i of one lies where element i of the other does (numel elements in memory
 * order may be taken as two linear arrays): both row-major, or of equal shape and strides. */
bool cpu_same_layout(const tern_view *a, const tern_view *b);

/* Does memory that `a` spans meet memory that `b` spans? (Bounds only.) */
bool cpu_spans_overlap(const tern_view *a, const tern_view *b);

/* A walk over operands of one shape (operand 0 decides the order): dimensions of extent 1 dropped,
 * sorted so that dim 0 has operand 0's smallest stride, neighbours merged where all operands allow.
 * Strides are in bytes, 0 where an operand is broadcast; shape[0] >= 1, ndim >= 1. */
enum { CPU_MAX_OPERANDS = 5 };
typedef struct cpu_walk {
    int ndim;
    int operands;
    int64_t shape[TERN_MAX_DIMS];
    int64_t stride[CPU_MAX_OPERANDS][TERN_MAX_DIMS];
    char *data[CPU_MAX_OPERANDS];
} cpu_walk;
/* views[0] gives the shape; another view has that shape or one element. numel > 0. */
void cpu_walk_init(cpu_walk *walk, int operands, const tern_view *const *views);

/* ---- conversion ------------------------------------------------------------------------------ */

/* n elements, both sides without gaps and not overlapping. Float to integer as the x86 instructions
 * do (toward zero; NaN and what does not fit in i32, or i64 for i64, become its least value;
 * shorter ones take the low bits of that), to bool: != 0, from bool: 0 or 1. */
typedef void (*cpu_convert_fn)(void *out, const void *in, int64_t n);
cpu_convert_fn cpu_converter(int out_dtype, int in_dtype);

static inline float cpu_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t cpu_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float cpu_bf16_to_f32(uint16_t value)
{
    return cpu_bits_float((uint32_t)value << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t cpu_f32_to_bf16(float value)
{
    const uint32_t bits = cpu_float_bits(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(value != value ? 0x7FC0u : rounded);
}

static inline float cpu_f16_to_f32(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)(value & 0x7FFFu) << 13;
    /* The exponent is rebiased by integers; denormals by subtracting the bit that was implied. */
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t special = magnitude + (224u << 23);
    const uint32_t denormal =
        cpu_float_bits(cpu_bits_float(magnitude + (113u << 23)) - cpu_bits_float(113u << 23));
    const uint32_t result = magnitude < (1u << 23)       ? denormal
                            : magnitude >= (0x1Fu << 23) ? special
                                                         : normal;
    return cpu_bits_float(result | sign);
}

/* Rounds to nearest, ties to even; beyond 65504 (rounded) infinity; NaN stays NaN. */
static inline uint16_t cpu_f32_to_f16(float value)
{
    const uint32_t bits = cpu_float_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    /* Adding 0.5 aligns a denormal result with the low bits of the sum, rounded by the addition. */
    const uint32_t denormal =
        cpu_float_bits(cpu_bits_float(magnitude) + 0.5f) - cpu_float_bits(0.5f);
    const uint32_t finite = magnitude < (113u << 23) ? denormal : normal;
    const uint32_t overflow = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    return (uint16_t)(sign | (magnitude >= (143u << 23) ? overflow : finite));
}

/* One element of any dtype. Integers beyond 2^53 lose low bits. */
double cpu_load_f64(const void *data, int dtype);
void cpu_store_f64(void *data, int dtype, double value);

/* ---- blocks of half types -------------------------------------------------------------------- */

/* Half types are computed in f32, this many elements at a time in stack buffers. */
enum { CPU_BLOCK = 512 };

/* f16 and bf16 blocks to and from f32 (other dtypes too; see cpu_converter). */
static inline void cpu_to_f32(float *out, const void *in, int in_dtype, int64_t n)
{
    cpu_converter(TERN_F32, in_dtype)(out, in, n);
}
static inline void cpu_from_f32(void *out, int out_dtype, const float *in, int64_t n)
{
    cpu_converter(out_dtype, TERN_F32)(out, in, n);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Uniforms in [0, 1) for elements first .. first + n - 1 of the draw (docs/design/random.md). */
void cpu_uniform_f32(float *out, uint64_t seed, uint64_t draw, int64_t first, int64_t n);
/* Standard normals, likewise. */
void cpu_normal_f32(float *out, uint64_t seed, uint64_t draw, int64_t first, int64_t n);

#endif
