/* cumsum, cumprod and linear_scan: how the work is cut. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

enum {
    SHORT = 64,         /* so few elements are one thread's work */
    MANY_COLUMNS = 4096 /* so many threads fill a device when neighbours lie beside each other */
};

static tern_status_t run(const tern_call *call, cuda_scan_kind kind, const char *name)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0];
    const tern_attr_scan *attr = call->attr;
    if (x->numel == 0)
        return TERN_OK;
    cuda_scan_args s = { .out = call->out[0]->data,
                         .x = x->data,
                         .factor = kind == CUDA_SCAN_LINEAR ? call->in[1]->data : NULL,
                         .dtype = x->dtype,
                         .kind = kind,
                         .reverse = attr->reverse != 0,
                         .n = x->ndim > 0 ? x->shape[attr->dim] : 1,
                         .inner = 1 };
    for (int d = attr->dim + 1; d < x->ndim; d++)
        s.inner *= x->shape[d];
    s.columns = x->numel / s.n;
    if (s.n > SHORT && (s.inner == 1 || s.columns < MANY_COLUMNS))
        s.chunks = (s.n + CUDA_SCAN_CHUNK - 1) / CUDA_SCAN_CHUNK;
    if (s.columns * s.chunks >= INT64_C(1) << 31)
        return call->host->fail(TERN_ERR_UNSUPPORTED, "2^31 pieces of work and more");
    if (s.chunks > 1) {
        s.parts = cuda_scratch(call, s.columns * s.chunks * CUDA_SCAN_PART_BYTES);
        if (s.parts == NULL)
            return TERN_ERR_OOM;
    }
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_scan(&s, stream), name);
}

tern_status_t cuda_cumsum(const tern_call *call)
{
    return run(call, CUDA_SCAN_SUM, "cumsum");
}

tern_status_t cuda_cumprod(const tern_call *call)
{
    return run(call, CUDA_SCAN_PRODUCT, "cumprod");
}

tern_status_t cuda_linear_scan(const tern_call *call)
{
    return run(call, CUDA_SCAN_LINEAR, "linear_scan");
}
