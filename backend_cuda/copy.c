/* copy, fill, arange, linspace: walks over the output, and over the input where there is one. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

/* Elements without gaps and of one dtype are plain bytes. */
static bool is_plain(const tern_view *out, const tern_view *in)
{
    if (out->dtype != in->dtype || !(out->flags & TERN_VIEW_DENSE) || in->numel != out->numel)
        return false;
    for (int d = 0; d < out->ndim; d++)
        if (out->shape[d] != 1 && out->stride[d] != in->stride[d])
            return false;
    return true;
}

tern_status_t cuda_copy(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *views[2] = { call->out[0], call->in[0] };
    const int64_t parts = cuda_walk_parts(2, views);
    const int64_t sizes[2] = { cuda_dtype_size(views[0]->dtype), cuda_dtype_size(views[1]->dtype) };
    const bool plain = is_plain(views[0], views[1]);
    if (parts == 0 || (plain && views[0]->data == views[1]->data)) /* T026 */
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    if (plain)
        return cuda_launched(call,
                             cudaMemcpyAsync(views[0]->data, views[1]->data,
                                             (size_t)(views[0]->numel * sizes[0]),
                                             cudaMemcpyDeviceToDevice, stream),
                             "copy");
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(2, views, i, &part);
        CUDA_TRY(cuda_launched(
            call,
            cuda_launch_copy((char *)views[0]->data + part.offset[0] * sizes[0], views[0]->dtype,
                             (const char *)views[1]->data + part.offset[1] * sizes[1],
                             views[1]->dtype, &part.walk, stream),
            "copy"));
    }
    return TERN_OK;
}

tern_status_t cuda_fill(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_attr_fill *attr = call->attr;
    const tern_view *out = call->out[0];
    const int64_t parts = cuda_walk_parts(1, &out);
    if (parts == 0)
        return TERN_OK;
    CUDA_TRY(cuda_enter(call, &stream));
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(1, &out, i, &part);
        void *data = (char *)out->data + part.offset[0] * cuda_dtype_size(out->dtype);
        CUDA_TRY(cuda_launched(
            call, cuda_launch_fill(data, out->dtype, &attr->value, &part.walk, stream), "fill"));
    }
    return TERN_OK;
}

tern_status_t cuda_from_row_major(const tern_call *call, const tern_view *like,
                                  const tern_view *out, void *data)
{
    tern_view dense = *like;
    int64_t stride = 1;
    dense.data = data;
    for (int d = out->ndim - 1; d >= 0; d--) {
        dense.stride[d] = stride;
        stride *= out->shape[d];
    }
    dense.flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE;
    const tern_view *in[1] = { &dense }, *to[1] = { out };
    tern_call copy = *call;
    copy.n_in = copy.n_out = 1;
    copy.in = in;
    copy.out = to;
    return cuda_copy(&copy);
}

tern_status_t cuda_make(const tern_call *call, cuda_make_fn launch, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *out = call->out[0];
    void *data = out->data;
    if (out->numel == 0)
        return TERN_OK;
    if (!(out->flags & TERN_VIEW_CONTIGUOUS))
        data = cuda_scratch(call, out->numel * cuda_dtype_size(out->dtype));
    if (data == NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cuda_enter(call, &stream));
    CUDA_TRY(cuda_launched(call, launch(call, data, stream), name));
    return data == out->data ? TERN_OK : cuda_from_row_major(call, out, out, data);
}

static cudaError_t launch_arange(const tern_call *call, void *data, cudaStream_t stream)
{
    const tern_view *out = call->out[0];
    return cuda_launch_arange(data, out->dtype, call->attr, out->numel, stream);
}

tern_status_t cuda_arange(const tern_call *call)
{
    return cuda_make(call, launch_arange, "arange");
}

static cudaError_t launch_linspace(const tern_call *call, void *data, cudaStream_t stream)
{
    return cuda_launch_linspace(data, call->out[0]->dtype, call->attr, stream);
}

tern_status_t cuda_linspace(const tern_call *call)
{
    return cuda_make(call, launch_linspace, "linspace");
}
