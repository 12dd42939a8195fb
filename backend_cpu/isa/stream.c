/* Copies with non-temporal stores, plain fills, and copies of what lies apart. */
#include "backend_cpu/convert.h"

#include "backend_cpu/isa/lanes.h"
#include "backend_cpu/isa/stream_line.h"
#include "backend_cpu/tuning.h"

void CPU_ISA_NAME(cpu_stream_copy)(void *out, const void *in, int64_t bytes)
{
    enum { LINE = 64 };
    char *to = out;
    const char *from = in;
    const int64_t head = (int64_t)(-(uintptr_t)to & (LINE - 1));
    if (!CPU_CAN_STREAM || head >= bytes) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    memcpy(to, from, (size_t)head);
    const bool early = cpu_tuned_for(CPU_INTEL);
    int64_t i = head;
    for (; i + LINE <= bytes; i += LINE) {
        if (early)
            lanes_second(from + i, LANES_SECOND);
        stream_line(to + i, from + i);
    }
    memcpy(to + i, from + i, (size_t)(bytes - i));
}

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

#define TAKE(T)                                                         \
    do {                                                                \
        T *to = out;                                                    \
        const T *from = in;                                             \
        if (step == -(int64_t)sizeof(T)) {                              \
            CPU_INDEPENDENT                                             \
            for (int64_t i = 0; i < n; i++)                             \
                to[i] = from[-i];                                       \
        } else {                                                        \
            for (int64_t i = 0; i < n; i++)                             \
                memcpy(to + i, (const char *)in + i * step, sizeof(T)); \
        }                                                               \
    } while (0)

void CPU_ISA_NAME(cpu_take_loop)(void *out, const void *in, int64_t step, int64_t size, int64_t n)
{
    if (size == 1)
        TAKE(uint8_t);
    else if (size == 2)
        TAKE(uint16_t);
    else if (size == 4)
        TAKE(uint32_t);
    else
        TAKE(uint64_t);
}
