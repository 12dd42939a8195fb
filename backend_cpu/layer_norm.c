/* layer_norm and its gradient over row-major rows. Gradients of the parameters add up in slabs of
 * rows, which do not depend on the threads. */
#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { SLAB = 128, SLABS_MOST = 64 }; /* rows; of so many only multiples make a slab */

typedef struct layer_norm_job {
    cpu_layer_norm_args args;
    int64_t rows;
    int64_t slab;  /* rows of one */
    char *partial; /* by slab: n of the weight's gradient, n of the bias's; stat */
} layer_norm_job;

/* read: arrays like x that are read. 0 rows where there is nothing to do. */
static void set_extents(layer_norm_job *job, const tern_view *x, int read,
                        const tern_attr_norm *attr)
{
    int64_t n = 1;
    for (int d = x->ndim - attr->dims; d < x->ndim; d++)
        n *= x->shape[d];
    job->rows = x->numel > 0 ? x->numel / n : 0;
    job->args.x = x->data;
    job->args.n = n;
    job->args.dtype = x->dtype;
    job->args.eps = attr->eps;
    const int64_t bytes = x->numel * cpu_dtype_size(x->dtype);
    job->args.stream = cpu_writes_past(read * bytes, bytes);
}

static void run_forward(void *context, int64_t begin, int64_t end)
{
    const layer_norm_job *job = context;
    CPU_ISA_PICK(cpu_layer_norm_rows)(&job->args, begin, end);
    if (job->args.stream)
        cpu_stream_end();
}

tern_status_t cpu_layer_norm(const tern_call *call)
{
    const tern_view *x = call->in[0];
    layer_norm_job job;
    set_extents(&job, x, 1, call->attr);
    if (job.rows == 0)
        return TERN_OK;
    if (!cpu_stat_of(call, call->in[1], &job.args.weight) ||
        !cpu_stat_of(call, call->in[2], &job.args.bias))
        return TERN_ERR_OOM;
    job.args.out = call->out[0]->data;
    job.args.mean = call->out[1]->data;
    job.args.rstd = call->out[2]->data;
    cpu_rows_run(call, x->numel * cpu_dtype_size(x->dtype) * 2, x->numel * 8, job.rows,
                 cpu_rows_grain(job.args.n), run_forward, &job);
    return TERN_OK;
}

/* ---- gradient -------------------------------------------------------------------------------- */

static void run_backward(void *context, int64_t begin, int64_t end)
{
    const layer_norm_job *job = context;
    const int64_t bytes = job->args.n * cpu_stat_size(job->args.dtype);
    for (int64_t slab = begin; slab < end; slab++) {
        char *weight_grad = job->partial + slab * 2 * bytes;
        const int64_t first = slab * job->slab;
        const int64_t last = first + job->slab < job->rows ? first + job->slab : job->rows;
        memset(weight_grad, 0, (size_t)(2 * bytes));
        CPU_ISA_PICK(cpu_layer_norm_grad_rows)
        (&job->args, first, last, weight_grad, weight_grad + bytes);
    }
    if (job->args.stream)
        cpu_stream_end();
}

tern_status_t cpu_layer_norm_grad(const tern_call *call)
{
    const tern_view *x = call->in[1];
    layer_norm_job job;
    set_extents(&job, x, 2, call->attr);
    job.slab = SLAB * ((job.rows + SLAB * SLABS_MOST - 1) / (SLAB * SLABS_MOST));
    const int64_t slabs = job.rows > 0 ? (job.rows + job.slab - 1) / job.slab : 0;
    const int64_t n = job.args.n;
    job.partial = NULL;
    if (slabs > 0) {
        job.partial = call->host->scratch(call, slabs * 2 * n * cpu_stat_size(x->dtype));
        if (job.partial == NULL || !cpu_stat_of(call, call->in[2], &job.args.weight))
            return TERN_ERR_OOM;
        job.args.grad = call->in[0]->data;
        job.args.mean = call->in[3]->data;
        job.args.rstd = call->in[4]->data;
        job.args.out = call->out[0]->data;
        cpu_rows_run(call, x->numel * cpu_dtype_size(x->dtype) * 3, x->numel * 16, slabs, 1,
                     run_backward, &job);
    }
    const char *bias_part = slabs > 0 ? job.partial + n * cpu_stat_size(x->dtype) : NULL;
    cpu_stat_add_up(call->out[1], job.partial, x->dtype, slabs, 2 * n);
    cpu_stat_add_up(call->out[2], bias_part, x->dtype, slabs, 2 * n);
    return TERN_OK;
}
