/* flip, roll, pad: maps of element numbers, dimension by dimension; tril, triu. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

static bool is_whole(const cuda_remap_dim *dim)
{
    return dim->start == 0 && dim->flipped == 0 && dim->size.number == dim->extent;
}

/* Both are moved as they are, and one lies within the other. */
static bool joins(const cuda_remap_dim *inner, const cuda_remap_dim *outer)
{
    return is_whole(inner) && is_whole(outer) &&
           outer->out_stride == inner->out_stride * inner->extent &&
           outer->in_stride == inner->in_stride * inner->extent;
}

static void add_dim(cuda_remap_args *a, const cuda_remap_dim *dim)
{
    cuda_remap_dim *inner = a->ndim > 0 ? &a->dims[a->ndim - 1] : NULL;
    if (inner != NULL && joins(inner, dim)) {
        inner->extent *= dim->extent;
        inner->size = cuda_divisor_of(inner->extent, a->numel);
        return;
    }
    a->dims[a->ndim++] = *dim;
}

/* Innermost first; dimensions of one element have no part in it, unless pad moved that element out. */
static void plan(const tern_call *call, cuda_remap_args *a)
{
    const tern_view *out = call->out[0], *in = call->in[0];
    const tern_attr_remap *attr = call->attr;
    a->numel = out->numel;
    a->dense = (out->flags & TERN_VIEW_CONTIGUOUS) != 0;
    for (int d = out->ndim - 1; d >= 0; d--)
        if (out->shape[d] != 1 || in->shape[d] != 1 || attr->start[d] != 0) {
            const cuda_remap_dim dim = { .size = cuda_divisor_of(out->shape[d], out->numel),
                                         .extent = in->shape[d],
                                         .start = attr->start[d],
                                         .out_stride = out->stride[d],
                                         .in_stride = in->stride[d],
                                         .outside = attr->outside[d],
                                         .flipped = attr->flipped >> d & 1 };
            add_dim(a, &dim);
        }
    if (a->ndim == 0) {
        const cuda_remap_dim one = { .size = cuda_divisor_of(1, 1), .extent = 1 };
        add_dim(a, &one);
    }
}

static tern_status_t remap(const tern_call *call, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *out = call->out[0];
    const tern_attr_remap *attr = call->attr;
    cuda_remap_args args = { 0 };
    if (out->numel == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    plan(call, &args);
    return cuda_launched(
        call,
        cuda_launch_remap(out->data, call->in[0]->data, out->dtype, &attr->value, &args, stream),
        name);
}

tern_status_t cuda_flip(const tern_call *call)
{
    return remap(call, "flip");
}

tern_status_t cuda_roll(const tern_call *call)
{
    return remap(call, "roll");
}

tern_status_t cuda_pad(const tern_call *call)
{
    return remap(call, "pad");
}

static tern_status_t triangle(const tern_call *call, int upper, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    const int64_t rows = out->shape[out->ndim - 2], columns = out->shape[out->ndim - 1];
    int64_t diagonal = ((const tern_attr_triangle *)call->attr)->diagonal;
    diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_triangle(out->data, call->in[0]->data,
                                              cuda_dtype_size(out->dtype), out->numel, rows,
                                              columns, diagonal, upper, stream),
                         name);
}

tern_status_t cuda_tril(const tern_call *call)
{
    return triangle(call, 0, "tril");
}

tern_status_t cuda_triu(const tern_call *call)
{
    return triangle(call, 1, "triu");
}
