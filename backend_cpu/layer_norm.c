/* layer_norm, rms_norm and their gradients over row-major rows. Gradients of the parameters add up in slabs of
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
    job->args.outgrows = (read + 1) * bytes > cpu_cache_bytes();
}

static void run_forward(void *context, int64_t begin, int64_t end)
{
    const layer_norm_job *job = context;
    CPU_ISA_PICK(cpu_layer_norm_rows)(&job->args, begin, end);
    if (job->args.stream)
        cpu_stream_end();
}

/* mean NULL: about 0. */
static tern_status_t normalise(const tern_call *call, const tern_view *bias, const tern_view *mean,
                               const tern_view *rstd)
{
    const tern_view *x = call->in[0];
    layer_norm_job job;
    set_extents(&job, x, 1, call->attr);
    if (job.rows == 0)
        return TERN_OK;
    if (!cpu_stat_of(call, call->in[1], &job.args.weight) ||
        !cpu_stat_of(call, bias, &job.args.bias))
        return TERN_ERR_OOM;
    job.args.out = call->out[0]->data;
    job.args.mean = mean != NULL ? mean->data : NULL;
    job.args.rstd = rstd->data;
    cpu_rows_run(call, x->numel * cpu_dtype_size(x->dtype) * 2, x->numel * 8, job.rows,
                 cpu_rows_grain(job.args.n), run_forward, &job);
    return TERN_OK;
}

tern_status_t cpu_layer_norm(const tern_call *call)
{
    return normalise(call, call->in[2], call->out[1], call->out[2]);
}

tern_status_t cpu_rms_norm(const tern_call *call)
{
    return normalise(call, NULL, NULL, call->out[1]);
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

/* mean and bias_grad NULL: about 0. */
static tern_status_t gradients(const tern_call *call, const tern_view *mean, const tern_view *rstd,
                               const tern_view *bias_grad)
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
        job.args.mean = mean != NULL ? mean->data : NULL;
        job.args.rstd = rstd->data;
        job.args.out = call->out[0]->data;
        cpu_rows_run(call, x->numel * cpu_dtype_size(x->dtype) * 3, x->numel * 16, slabs, 1,
                     run_backward, &job);
    }
    const char *bias_part = slabs > 0 ? job.partial + n * cpu_stat_size(x->dtype) : NULL;
    cpu_stat_add_up(call->out[1], job.partial, x->dtype, slabs, 2 * n);
    if (bias_grad != NULL)
        cpu_stat_add_up(bias_grad, bias_part, x->dtype, slabs, 2 * n);
    return TERN_OK;
}

tern_status_t cpu_layer_norm_grad(const tern_call *call)
{
    return gradients(call, call->in[3], call->in[4], call->out[2]);
}

tern_status_t cpu_rms_norm_grad(const tern_call *call)
{
    return gradients(call, NULL, call->in[3], NULL);
}
