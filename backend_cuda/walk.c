/* See walk.h. */
#include "backend_cuda/walk.h"

#include <string.h>

enum { DIMS = TERN_MAX_DIMS };
static int64_t limit = INT64_C(1) << 31; /* tests/unit/test_cuda_walk.c has a lower one */

typedef struct dims {
    int ndim;
    int64_t shape[DIMS];
    int64_t stride[DIMS][CUDA_WALK_OPERANDS];
} dims;

static int64_t stride_at(const tern_view *v, int d)
{
    return v->ndim == 0 || v->shape[d] == 1 ? 0 : v->stride[d];
}

/* Innermost first by the written operand's strides. */
static void order_dims(const tern_view *out, int order[DIMS])
{
    for (int d = 0; d < out->ndim; d++) {
        const int dim = out->ndim - 1 - d;
        int at = d;
        for (; at > 0 && stride_at(out, order[at - 1]) > stride_at(out, dim); at--)
            order[at] = order[at - 1];
        order[at] = dim;
    }
}

static bool joins(const dims *w, int operands, const int64_t *stride)
{
    const int last = w->ndim - 1;
    for (int k = 0; k < operands; k++)
        if (stride[k] != w->stride[last][k] * w->shape[last])
            return false;
    return true;
}

static void merge_dims(dims *w, int operands, const tern_view *const *views)
{
    int order[DIMS];
    const tern_view *out = views[0];
    order_dims(out, order);
    memset(w, 0, sizeof *w);
    for (int i = 0; i < out->ndim; i++) {
        const int d = order[i];
        int64_t stride[CUDA_WALK_OPERANDS] = { 0 };
        if (out->shape[d] == 1)
            continue;
        for (int k = 0; k < operands; k++)
            stride[k] = stride_at(views[k], d);
        if (w->ndim > 0 && joins(w, operands, stride)) {
            w->shape[w->ndim - 1] *= out->shape[d];
            continue;
        }
        w->shape[w->ndim] = out->shape[d];
        memcpy(w->stride[w->ndim++], stride, sizeof stride);
    }
}

/* Dimension `dim` is cut every `step` of its indices, into `pieces`; each index of those above it has its own parts. */
typedef struct cuts {
    int dim;
    int64_t step, pieces, parts;
} cuts;

/* As far out as what is inside stays below 2^31 elements. */
static cuts find_cuts(const dims *w)
{
    cuts c = { .dim = 0, .step = 1, .pieces = 1, .parts = 1 };
    int64_t inner = 1;
    if (w->ndim == 0)
        return c;
    while (c.dim < w->ndim - 1 && w->shape[c.dim] <= (limit - 1) / inner)
        inner *= w->shape[c.dim++];
    const int64_t extent = w->shape[c.dim], most = (limit - 1) / inner;
    c.step = most < extent ? most : extent;
    c.pieces = c.parts = (extent + c.step - 1) / c.step;
    for (int d = c.dim + 1; d < w->ndim; d++)
        c.parts *= w->shape[d];
    return c;
}

int64_t cuda_walk_parts(int operands, const tern_view *const *views)
{
    dims w;
    if (views[0]->numel == 0)
        return 0;
    merge_dims(&w, operands, views);
    return find_cuts(&w).parts;
}

cuda_divisor cuda_divisor_of(int64_t number, int64_t most)
{
    const int64_t bound = INT64_C(1) << 31;
    cuda_divisor d = { .number = number, .shift = -1 };
    if (most >= bound)
        return d;
    /* beyond the bound all are 0; of no elements nobody asks */
    const uint64_t divisor = (uint64_t)(number < 1 ? 1 : number < bound ? number : bound);
    d.shift = 0;
    while ((UINT64_C(1) << d.shift) < divisor)
        d.shift++;
    d.magic = (uint32_t)((UINT64_C(1) << 32) * ((UINT64_C(1) << d.shift) - divisor) / divisor + 1);
    return d;
}

static void set_divisor(cuda_walk *walk, int d, uint32_t divisor)
{
    const cuda_divisor by = cuda_divisor_of(divisor, 0);
    walk->shift[d] = (uint32_t)by.shift;
    walk->magic[d] = by.magic;
}

static void skip(cuda_walk_part *part, const dims *w, int d, int64_t index)
{
    for (int k = 0; k < CUDA_WALK_OPERANDS; k++)
        part->offset[k] += index * w->stride[d][k];
}

/* To part `i`: its piece, then indices of the dimensions above. Returns the piece's extent. */
static int64_t go_to_part(cuda_walk_part *part, const dims *w, const cuts *c, int64_t i)
{
    const int64_t first = i % c->pieces * c->step, left = w->shape[c->dim] - first;
    skip(part, w, c->dim, first);
    i /= c->pieces;
    for (int d = c->dim + 1; d < w->ndim; d++) {
        skip(part, w, d, i % w->shape[d]);
        i /= w->shape[d];
    }
    return left < c->step ? left : c->step;
}

void cuda_walk_plan(int operands, const tern_view *const *views, int64_t i,
                    cuda_walk_part *out_part)
{
    dims w;
    merge_dims(&w, operands, views);
    cuda_walk *walk = &out_part->walk;
    memset(out_part, 0, sizeof *out_part);
    walk->numel = 1;
    if (w.ndim == 0)
        return;
    const cuts c = find_cuts(&w);
    w.shape[c.dim] = go_to_part(out_part, &w, &c, i);
    walk->ndim = c.dim + 1;
    for (int d = 0; d < walk->ndim; d++) {
        walk->shape[d] = (uint32_t)w.shape[d];
        walk->numel *= (uint32_t)w.shape[d];
        set_divisor(walk, d, (uint32_t)w.shape[d]);
        memcpy(walk->stride[d], w.stride[d], sizeof w.stride[d]);
    }
}

bool cuda_walk_is_line(const tern_view *view, int64_t *out_stride)
{
    dims w;
    const tern_view *const views[1] = { view };
    merge_dims(&w, 1, views);
    *out_stride = w.stride[0][0];
    return w.ndim <= 1;
}
