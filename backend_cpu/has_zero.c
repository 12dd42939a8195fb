/* See has_zero.h. */
#include "backend_cpu/has_zero.h"

#include "backend_cpu/strided.h"

typedef struct zero_search {
    cpu_walk walk;
    int64_t size;
    int found;
} zero_search;

static bool has_zero(const void *data, int64_t size, int64_t n)
{
    int found = 0;
#define SEARCH(S)                           \
    for (int64_t i = 0; i < n; i++)         \
        found |= ((const S *)data)[i] == 0; \
    break
    switch (size) {
    case 1:
        SEARCH(uint8_t);
    case 2:
        SEARCH(uint16_t);
    case 4:
        SEARCH(uint32_t);
    default:
        SEARCH(uint64_t);
    }
#undef SEARCH
    return found != 0;
}

static void search_zero(void *context, int64_t begin, int64_t end)
{
    zero_search *s = context;
    _Alignas(64) char buffer[CPU_BLOCK * 8];
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &s->walk, begin);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        if (has_zero(cpu_pack(&cursor, 0, s->size, n, buffer), s->size, n)) {
            __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
            return;
        }
        cpu_cursor_advance(&cursor, n);
    }
}

bool cpu_has_zero(const tern_call *call, const tern_view *divisor)
{
    tern_view once = *divisor;
    const tern_view *views[1] = { &once };
    zero_search s = { .size = cpu_dtype_size(divisor->dtype) };
    for (int d = 0; d < once.ndim; d++)
        if (once.stride[d] == 0 && once.shape[d] > 1) {
            once.numel /= once.shape[d];
            once.shape[d] = 1;
        }
    cpu_walk_init(&s.walk, 1, views);
    cpu_parallel(cpu_threads(call, once.numel * s.size, once.numel), once.numel, CPU_BLOCK,
                 search_zero, &s);
    return s.found != 0;
}
