/* See streams.h. */
#define _GNU_SOURCE
#include "streams.h"

#include <sched.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LINES = 4,   /* of each array at a time */
    AHEAD = 512, /* floats that prefetches look forward */
    GRAIN = 1024 /* floats that a thread's part is a multiple of */
};

#if defined(TERN_ROLLED)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* 0, which compilers do not know. */
static volatile float no_number = 0;
static float nothing;

typedef float v4 __attribute__((vector_size(16)));
#define NAME(x) base_##x
#define TARGET
#define V v4
#if defined(__SSE2__)
#define STORE_PAST(p, v) _mm_stream_ps(p, (__m128)(v))
#else
#define STORE_PAST(p, v) (*(V *)(void *)(p) = (v))
#endif
#include "streams.inc"

#if defined(__x86_64__)
typedef float v8 __attribute__((vector_size(32)));
#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define V v8
#define STORE_PAST(p, v) _mm256_stream_ps(p, (__m256)(v))
#include "streams.inc"

typedef float v16 __attribute__((vector_size(64)));
#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f")))
#define V v16
#define STORE_PAST(p, v) _mm512_stream_ps(p, (__m512)(v))
#include "streams.inc"
#endif

const char *bench_streams_name(int variant)
{
    static const char *const names[] = { "plain", "plain_ahead", "past", "past_ahead" };
    return names[variant];
}

static void run_range(const bench_streams *s, int64_t begin, int64_t end, int variant)
{
    const int64_t whole = begin + (end - begin) / (LINES * 16) * (LINES * 16);
    volatile float sum;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        sum = avx512_range(s, begin, whole, variant);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sum = avx2_range(s, begin, whole, variant);
    else
        sum = base_range(s, begin, whole, variant);
    _mm_sfence();
#else
    sum = base_range(s, begin, whole, variant);
#endif
    (void)sum;
}

void bench_streams_pass(const bench_streams *s, int variant, int threads)
{
    nothing = no_number;
    const int64_t share = (s->n / threads + GRAIN - 1) / GRAIN * GRAIN;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
#endif
    for (int t = 0; t < threads; t++) {
        const int64_t end = (t + 1) * share;
        run_range(s, t * share, end < s->n ? end : s->n, variant);
    }
}

#if defined(CPU_SETSIZE) && defined(_OPENMP)
/* The number-th CPU of a set that has it. */
static size_t cpu_of(const cpu_set_t *set, int number)
{
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, set) || number-- > 0)
        cpu++;
    return cpu;
}

void bench_streams_pin(int threads)
{
    cpu_set_t all;
    if (threads < 2 || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < threads)
        return;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu_of(&all, t), &one);
        (void)sched_setaffinity(0, sizeof one, &one);
    }
}
#else
void bench_streams_pin(int threads)
{
    (void)threads;
}
#endif
