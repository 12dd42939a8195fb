/* linear: out [M, N] = x [M, K] weight [N, K]^T + bias [N]. The product starts from the bias, so
 * that no pass over the result is added. */
#include "backend_cpu/gemm.h"
#include "backend_cpu/kernels.h"

/* The bias without gaps; NULL after a failure of scratch. */
static const void *dense_bias(const tern_call *call, const tern_view *bias)
{
    if (bias->numel <= 1 || bias->stride[0] == 1)
        return bias->data;
    const int64_t size = cpu_dtype_size(bias->dtype);
    char *dense = call->host->scratch(call, bias->numel * size);
    for (int64_t i = 0; dense != NULL && i < bias->numel; i++)
        memcpy(dense + i * size, (const char *)bias->data + i * bias->stride[0] * size,
               (size_t)size);
    return dense;
}

tern_status_t cpu_linear(const tern_call *call)
{
    const tern_view *x = call->in[0], *weight = call->in[1], *bias = call->in[2];
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    cpu_product g = { .m = x->shape[0],
                      .n = weight->shape[0],
                      .k = x->shape[1],
                      .a = x->data,
                      .b = weight->data,
                      .c = out->data,
                      .a_row = x->stride[0],
                      .a_col = x->stride[1],
                      .b_row = weight->stride[1],
                      .b_col = weight->stride[0],
                      .c_row = weight->shape[0] };
    if (bias != NULL && (g.bias = dense_bias(call, bias)) == NULL)
        return TERN_ERR_OOM;
    const int threads = cpu_product_threads(call, out->dtype, &g, 1);
    cpu_room room = { .data = NULL };
    return cpu_product_any(call, out->dtype, &g, threads, &room) ? TERN_OK : TERN_ERR_OOM;
}
