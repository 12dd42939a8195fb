/* Walks over strided operands: which dimensions are left, in which order. */
#include <stdlib.h>

#include "backend_cpu/cpu.h"

bool cpu_same_layout(const tern_view *a, const tern_view *b)
{
    if ((a->flags & b->flags & TERN_VIEW_CONTIGUOUS) != 0)
        return true;
    if ((a->flags & b->flags & TERN_VIEW_DENSE) == 0 || a->ndim != b->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d] || (a->shape[d] != 1 && a->stride[d] != b->stride[d]))
            return false;
    }
    return true;
}

/* First byte and the one after the last that a view with elements spans. */
static void span(const tern_view *v, uintptr_t *out_begin, uintptr_t *out_end)
{
    int64_t low = 0, high = 1;
    for (int d = 0; d < v->ndim; d++) {
        const int64_t reach = (v->shape[d] - 1) * v->stride[d];
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    const int64_t size = cpu_dtype_size(v->dtype);
    *out_begin = (uintptr_t)v->data + (uintptr_t)(low * size);
    *out_end = (uintptr_t)v->data + (uintptr_t)(high * size);
}

bool cpu_spans_overlap(const tern_view *a, const tern_view *b)
{
    if (a->numel == 0 || b->numel == 0)
        return false;
    uintptr_t a_begin, a_end, b_begin, b_end;
    span(a, &a_begin, &a_end);
    span(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

/* Is dimension i inside of dimension j, by the first operand that tells? */
static bool is_inner(const cpu_walk *walk, int i, int j)
{
    for (int k = 0; k < walk->operands; k++) {
        const int64_t a = llabs(walk->stride[k][i]), b = llabs(walk->stride[k][j]);
        if (a != 0 && b != 0 && a != b)
            return a < b;
    }
    return false;
}

static void move_dim(cpu_walk *walk, int to, int from)
{
    walk->shape[to] = walk->shape[from];
    for (int k = 0; k < walk->operands; k++)
        walk->stride[k][to] = walk->stride[k][from];
}

static void swap_dims(cpu_walk *walk, int i, int j)
{
    const int64_t extent = walk->shape[i];
    walk->shape[i] = walk->shape[j];
    walk->shape[j] = extent;
    for (int k = 0; k < walk->operands; k++) {
        const int64_t stride = walk->stride[k][i];
        walk->stride[k][i] = walk->stride[k][j];
        walk->stride[k][j] = stride;
    }
}

static bool continues(const cpu_walk *walk, int inner, int outer)
{
    for (int k = 0; k < walk->operands; k++) {
        if (walk->stride[k][outer] != walk->stride[k][inner] * walk->shape[inner])
            return false;
    }
    return true;
}

static void merge_dims(cpu_walk *walk)
{
    int last = 0;
    for (int d = 1; d < walk->ndim; d++) {
        if (continues(walk, last, d))
            walk->shape[last] *= walk->shape[d];
        else
            move_dim(walk, ++last, d);
    }
    walk->ndim = last + 1;
}

static void sort_dims(cpu_walk *walk)
{
    for (int d = 1; d < walk->ndim; d++) {
        for (int i = d; i > 0 && is_inner(walk, i, i - 1); i--)
            swap_dims(walk, i, i - 1);
    }
}

void cpu_walk_init(cpu_walk *walk, int operands, const tern_view *const *views)
{
    const tern_view *first = views[0];
    int64_t size[CPU_MAX_OPERANDS];
    walk->operands = operands;
    for (int k = 0; k < operands; k++) {
        walk->data[k] = views[k]->data;
        /* one element against many: it stands still */
        size[k] = views[k]->numel == first->numel ? cpu_dtype_size(views[k]->dtype) : 0;
    }
    int ndim = 0;
    for (int d = first->ndim - 1; d >= 0; d--) {
        if (first->shape[d] == 1)
            continue;
        walk->shape[ndim] = first->shape[d];
        for (int k = 0; k < operands; k++)
            walk->stride[k][ndim] = size[k] ? views[k]->stride[d] * size[k] : 0;
        ndim++;
    }
    if (ndim == 0) {
        walk->shape[0] = 1;
        for (int k = 0; k < operands; k++)
            walk->stride[k][0] = 0;
        ndim = 1;
    }
    walk->ndim = ndim;
    sort_dims(walk);
    merge_dims(walk);
}
