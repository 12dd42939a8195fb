/* See walk.h. */
#include "backend_cuda/walk.h"

#include <stdbool.h>
#include <string.h>

enum { DIMS = TERN_MAX_DIMS };
static const int64_t most_elements = INT64_C(1) << 31;

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

/* The outermost dimension is cut so that what is inside stays below 2^31 elements. */
static int64_t outer_step(const dims *w, int64_t *out_parts)
{
    int64_t inner = 1;
    for (int d = 0; d < w->ndim - 1; d++)
        inner *= w->shape[d];
    const int64_t outer = w->ndim > 0 ? w->shape[w->ndim - 1] : 1;
    int64_t step = (most_elements - 1) / inner;
    if (step > outer)
        step = outer;
    *out_parts = step > 0 ? (outer + step - 1) / step : 0;
    return step;
}

int64_t cuda_walk_parts(int operands, const tern_view *const *views)
{
    dims w;
    int64_t parts = 0;
    if (views[0]->numel == 0)
        return 0;
    merge_dims(&w, operands, views);
    (void)outer_step(&w, &parts);
    return parts;
}

/* Granlund and Montgomery: right for n < 2^31. */
static void set_divisor(cuda_walk *walk, int d, uint32_t divisor)
{
    uint32_t shift = 0;
    while ((UINT64_C(1) << shift) < divisor)
        shift++;
    walk->shift[d] = shift;
    walk->magic[d] =
        (uint32_t)((UINT64_C(1) << 32) * ((UINT64_C(1) << shift) - divisor) / divisor + 1);
}

void cuda_walk_plan(int operands, const tern_view *const *views, int64_t i,
                    cuda_walk_part *out_part)
{
    dims w;
    int64_t parts = 0;
    merge_dims(&w, operands, views);
    const int64_t step = outer_step(&w, &parts);
    cuda_walk *walk = &out_part->walk;
    memset(out_part, 0, sizeof *out_part);
    walk->ndim = w.ndim;
    walk->numel = 1;
    for (int d = 0; d < w.ndim; d++) {
        int64_t extent = w.shape[d];
        if (d == w.ndim - 1) {
            extent = extent - i * step < step ? extent - i * step : step;
            for (int k = 0; k < operands; k++)
                out_part->offset[k] = i * step * w.stride[d][k];
        }
        walk->shape[d] = (uint32_t)extent;
        walk->numel *= (uint32_t)extent;
        set_divisor(walk, d, (uint32_t)extent);
        memcpy(walk->stride[d], w.stride[d], sizeof w.stride[d]);
    }
}
