/* Copies with non-temporal stores, and plain fills. */
#include "backend_cpu/convert.h"

#if defined(__SSE2__)
#include <immintrin.h>

#if defined(__AVX512F__)
enum { LINE = 64 };
#define STREAM(to, from) _mm512_stream_si512((void *)(to), _mm512_loadu_si512(from))
#elif defined(__AVX2__)
enum { LINE = 32 };
#define STREAM(to, from) _mm256_stream_si256((void *)(to), _mm256_loadu_si256((const void *)(from)))
#else
enum { LINE = 16 };
#define STREAM(to, from) _mm_stream_si128((void *)(to), _mm_loadu_si128((const void *)(from)))
#endif

void CPU_ISA_NAME(cpu_stream_copy)(void *out, const void *in, int64_t bytes)
{
    char *to = out;
    const char *from = in;
    const int64_t head = (int64_t)(-(uintptr_t)to & (LINE - 1));
    if (head >= bytes) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    memcpy(to, from, (size_t)head);
    int64_t i = head;
    for (; i + LINE <= bytes; i += LINE)
        STREAM(to + i, from + i);
    memcpy(to + i, from + i, (size_t)(bytes - i));
}
#else
void CPU_ISA_NAME(cpu_stream_copy)(void *out, const void *in, int64_t bytes)
{
    memcpy(out, in, (size_t)bytes);
}
#endif

#define SET(T)                                   \
    do {                                         \
        T element;                               \
        memcpy(&element, value, sizeof element); \
        T *to = out;                             \
        for (int64_t i = 0; i < n; i++)          \
            to[i] = element;                     \
    } while (0)

void CPU_ISA_NAME(cpu_set_loop)(void *out, const void *value, int64_t size, int64_t n)
{
    if (size == 1)
        SET(uint8_t);
    else if (size == 2)
        SET(uint16_t);
    else if (size == 4)
        SET(uint32_t);
    else
        SET(uint64_t);
}
