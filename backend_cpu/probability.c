/* See probability.h. */
#include "backend_cpu/probability.h"

/* Bits of numbers in [0, 1] are those of 0 to 1, in order, and of -0: everything else, NaN too, is
 * above. Integers, for any instruction set to compare many at a time. */
#define SEARCH(S, one, minus_zero)                                  \
    do {                                                            \
        const S *bits = data;                                       \
        for (int64_t i = 0; i < n; i++)                             \
            found |= (bits[i] > (one)) & (bits[i] != (minus_zero)); \
    } while (0)

static bool has_outside(const void *data, int64_t size, int64_t n)
{
    int found = 0;
    if (size == 4)
        SEARCH(uint32_t, 0x3F800000u, 0x80000000u);
    else
        SEARCH(uint64_t, 0x3FF0000000000000u, 0x8000000000000000u);
    return found != 0;
}

void cpu_probable_loop(void *out, const void *a, const void *b, const void *c, int64_t n,
                       int scalars, const void *numbers)
{
    const cpu_probable *p = numbers;
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK, skip = i * p->size;
        const char *x = (const char *)a + skip, *target = (const char *)b + skip;
        if (has_outside(x, p->size, count) || has_outside(target, p->size, count)) {
            __atomic_store_n(p->outside, 1, __ATOMIC_RELAXED);
            return;
        }
        p->loop((char *)out + skip, x, target, c, count, scalars, p->numbers);
    }
}

/* ---- which it was ---------------------------------------------------------------------------- */

static double element(const tern_view *v, int64_t index)
{
    int64_t offset = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        offset += index % v->shape[d] * v->stride[d];
        index /= v->shape[d];
    }
    return cpu_load_f64((const char *)v->data + offset * cpu_dtype_size(v->dtype), v->dtype);
}

/* The place of the first element that is outside, row by row, or -1. */
static int64_t find_outside(const tern_view *v, double *value)
{
    for (int64_t i = 0; i < v->numel; i++) {
        *value = element(v, i);
        if (!(*value >= 0 && *value <= 1))
            return i;
    }
    return -1;
}

tern_status_t cpu_fail_improbable(const tern_call *call)
{
    double value = 0;
    int64_t at = find_outside(call->in[0], &value);
    const char *name = at >= 0 ? "x" : "target";
    if (at < 0)
        at = find_outside(call->in[1], &value);
    return call->host->fail(TERN_ERR_ARGUMENT,
                            "%g at position %lld of %s is no probability in [0, 1]\n  try "
                            "tern_binary_cross_entropy_with_logits, which takes any x",
                            value, (long long)at, name);
}
