/* 64 bytes past the caches; `to` is 64-byte aligned. CPU_CAN_STREAM says whether there is such a
 * store. */
#ifndef TERN_BACKEND_CPU_ISA_STREAM_LINE_H
#define TERN_BACKEND_CPU_ISA_STREAM_LINE_H

#include <stdint.h>
#include <string.h>

/* Before a loop over one line: unrolled early it would not be vectorised, and sixteen short stores
 * that one long load follows stall it. */
#if defined(__clang__)
#define KEEP_LOOP _Pragma("clang loop unroll(disable) vectorize(assume_safety)")
#else
#define KEEP_LOOP _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#define CPU_CAN_STREAM 1

static inline void stream_line(void *to, const void *from)
{
    char *t = to;
    const char *f = from;
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)t, _mm512_loadu_si512(f));
#elif defined(__AVX2__)
    for (int i = 0; i < 64; i += 32)
        _mm256_stream_si256((void *)(t + i), _mm256_loadu_si256((const void *)(f + i)));
#else
    for (int i = 0; i < 64; i += 16)
        _mm_stream_si128((void *)(t + i), _mm_loadu_si128((const void *)(f + i)));
#endif
}
#else
#define CPU_CAN_STREAM 0
static inline void stream_line(void *to, const void *from)
{
    memcpy(to, from, 64);
}
#endif

/* How many of n elements of `size` bytes lie before the first line that begins in them. */
static inline int64_t stream_head(const void *to, int64_t size, int64_t n)
{
    const int64_t head = (int64_t)(-(uintptr_t)to % 64) / size;
    return head < n ? head : n;
}

#endif
