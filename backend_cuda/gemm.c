/* gemm and linear. */
#include "backend_cuda/blas.h"
#include "backend_cuda/kernels.h"

/* Strides of the last two dimensions, and of the batch where there is one. */
static void set_strides(int64_t stride[3], const tern_view *v)
{
    stride[0] = v->ndim == 3 ? v->stride[0] : 0;
    stride[1] = v->stride[v->ndim - 2];
    stride[2] = v->stride[v->ndim - 1];
}

tern_status_t cuda_gemm(const tern_call *call)
{
    const tern_view *x = call->in[0], *y = call->in[1], *out = call->out[0];
    cuda_gemm_args g = { .out = out->data, .x = x->data, .y = y->data, .dtype = x->dtype };
    g.batch = out->ndim == 3 ? out->shape[0] : 1;
    g.m = out->shape[out->ndim - 2];
    g.n = out->shape[out->ndim - 1];
    g.k = x->shape[x->ndim - 1];
    set_strides(g.out_stride, out);
    set_strides(g.x_stride, x);
    set_strides(g.y_stride, y);
    return cuda_multiply(call, &g, "gemm");
}

/* x [M, K], weight [N, K], bias [N] or NULL */
tern_status_t cuda_linear(const tern_call *call)
{
    const tern_view *x = call->in[0], *weight = call->in[1], *bias = call->in[2];
    const tern_view *out = call->out[0];
    cuda_gemm_args g = { .out = out->data, .x = x->data, .y = weight->data, .dtype = x->dtype };
    g.batch = 1;
    g.m = out->shape[0];
    g.n = out->shape[1];
    g.k = x->shape[1];
    set_strides(g.out_stride, out);
    set_strides(g.x_stride, x);
    g.y_stride[1] = weight->stride[1];
    g.y_stride[2] = weight->stride[0];
    if (bias != NULL) {
        g.bias = bias->data;
        g.bias_stride = bias->stride[0];
    }
    return cuda_multiply(call, &g, "linear");
}
