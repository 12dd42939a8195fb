/* See probability.h. */
#include "backend_cpu/probability.h"

enum { NEAR = 4096 }; /* elements that the nearest cache holds */

bool cpu_is_near_and_probable(const tern_call *call)
{
    const tern_view *x = call->in[0], *target = call->in[1];
    const int64_t n = x->numel, size = cpu_dtype_size(x->dtype);
    return n <= NEAR && n == target->numel && x->dtype == target->dtype && size >= 4 &&
           (x->flags & target->flags & TERN_VIEW_CONTIGUOUS) != 0 &&
           !CPU_ISA_PICK(cpu_has_improbable)(x->data, size, n) &&
           !CPU_ISA_PICK(cpu_has_improbable)(target->data, size, n);
}

void cpu_probable_loop(void *out, const void *a, const void *b, const void *c, int64_t n,
                       int scalars, const void *numbers)
{
    const cpu_probable *p = numbers;
    bool (*const has_improbable)(const void *, int64_t, int64_t) = CPU_ISA_PICK(cpu_has_improbable);
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK, skip = i * p->size;
        const char *x = (const char *)a + skip, *target = (const char *)b + skip;
        p->loop((char *)out + skip, x, target, c, count, scalars, p->numbers);
        if (has_improbable(x, p->size, count) || has_improbable(target, p->size, count)) {
            __atomic_store_n(p->outside, 1, __ATOMIC_RELAXED);
            return;
        }
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
    const bool is_x = at >= 0;
    if (!is_x)
        at = find_outside(call->in[1], &value);
    return call->host->fail(
        TERN_ERR_ARGUMENT, "%g at position %lld of %s is no probability in [0, 1]%s", value,
        (long long)at, is_x ? "x" : "target",
        is_x ? "\n  try tern_binary_cross_entropy_with_logits, which takes any x" : "");
}
