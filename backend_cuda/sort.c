/* sort and searchsorted: rows, their length and scratch memory. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

tern_status_t cuda_sort(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *x = call->in[0];
    const tern_attr_sort *attr = call->attr;
    if (call->out[0]->numel == 0)
        return TERN_OK;
    cuda_sort_args s = { .values = call->out[0]->data,
                         .places = call->out[1]->data,
                         .x = x->data,
                         .dtype = x->dtype,
                         .size = (int)cuda_dtype_size(x->dtype),
                         .descending = attr->descending != 0,
                         .median = attr->median != 0,
                         .n = x->ndim > 0 ? x->shape[attr->dim] : 1,
                         .inner = 1,
                         .first = attr->first,
                         .count = attr->count };
    for (int d = attr->dim + 1; d < x->ndim; d++)
        s.inner *= x->shape[d];
    s.rows = x->numel / s.n;
    if (s.n >= INT64_C(1) << 32 || s.rows >= INT64_C(1) << 30)
        return call->host->fail(TERN_ERR_UNSUPPORTED,
                                "2^30 rows and more, or rows of 2^32 elements and more");
    s.scratch = cuda_scratch(call, cuda_sort_bytes(&s));
    if (s.scratch == NULL)
        return TERN_ERR_OOM;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_sort(&s, stream), "sort");
}

tern_status_t cuda_searchsorted(const tern_call *call)
{
    cudaStream_t stream = NULL;
    const tern_view *sorted = call->in[0], *x = call->in[1];
    const tern_attr_search *attr = call->attr;
    if (x->numel == 0)
        return TERN_OK;
    const int64_t n = sorted->shape[sorted->ndim - 1];
    const int64_t rows = n > 0 && sorted->ndim > 1 ? sorted->numel / n : 1;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call,
                         cuda_launch_searchsorted(call->out[0]->data, sorted->data, x->data,
                                                  x->dtype, rows, n, x->numel / rows,
                                                  attr->right != 0, stream),
                         "searchsorted");
}
