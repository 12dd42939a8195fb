/* softmax and log_softmax along one dimension of a row-major tensor, and their gradients. */
#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum { COLUMNS = 64 }; /* columns that one range of a strided softmax takes */

typedef void (*rows_fn)(const cpu_softmax_args *args, int64_t begin, int64_t end);
typedef void (*columns_fn)(const cpu_softmax_args *args, int64_t block, int64_t first,
                           int64_t width);
typedef struct softmax_job {
    cpu_softmax_args args;
    rows_fn rows;
    columns_fn columns;
} softmax_job;

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const softmax_job *job = context;
    job->rows(&job->args, begin, end);
    if (job->args.stream)
        cpu_stream_end();
}

static void run_columns(void *context, int64_t begin, int64_t end)
{
    const softmax_job *job = context;
    const int64_t inner = job->args.inner;
    const int64_t per_block = (inner + COLUMNS - 1) / COLUMNS;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % per_block * COLUMNS;
        const int64_t width = inner - first < COLUMNS ? inner - first : COLUMNS;
        job->columns(&job->args, i / per_block, first, width);
    }
}

static tern_status_t softmax_run(const tern_call *call, softmax_job *job)
{
    const tern_view *x = call->in[0];
    const int dim = ((const tern_attr_dim *)call->attr)->dim;
    if (x->numel == 0)
        return TERN_OK;
    cpu_softmax_args *args = &job->args;
    args->x = x->data;
    args->y = call->n_in > 1 ? call->in[1]->data : NULL;
    args->out = call->out[0]->data;
    args->dtype = x->dtype;
    args->n = x->ndim > 0 ? x->shape[dim] : 1;
    args->inner = 1;
    for (int d = dim + 1; d < x->ndim; d++)
        args->inner *= x->shape[d];
    const int64_t out_bytes = x->numel * cpu_dtype_size(x->dtype);
    const int64_t bytes = out_bytes * (call->n_in + 1);
    const int64_t flops = x->numel * 25;
    const int64_t outer = x->numel / (args->n * args->inner);
    args->stream = cpu_writes_past(out_bytes * call->n_in, out_bytes);
    if (args->inner == 1)
        cpu_rows_run(call, bytes, flops, outer, cpu_rows_grain(args->n), run_rows, job);
    else
        cpu_rows_run(call, bytes, flops, outer * ((args->inner + COLUMNS - 1) / COLUMNS),
                     cpu_rows_grain(args->n * COLUMNS), run_columns, job);
    return TERN_OK;
}

static tern_status_t forward(const tern_call *call, bool log)
{
    softmax_job job = { .args.log = log };
    job.rows = CPU_ISA_PICK(cpu_softmax_rows);
    job.columns = CPU_ISA_PICK(cpu_softmax_columns);
    return softmax_run(call, &job);
}

static tern_status_t gradient(const tern_call *call, bool log)
{
    softmax_job job = { .args.log = log };
    job.rows = CPU_ISA_PICK(cpu_softmax_grad_rows);
    job.columns = CPU_ISA_PICK(cpu_softmax_grad_columns);
    return softmax_run(call, &job);
}

tern_status_t cpu_softmax(const tern_call *call)
{
    return forward(call, false);
}
tern_status_t cpu_log_softmax(const tern_call *call)
{
    return forward(call, true);
}
tern_status_t cpu_softmax_grad(const tern_call *call)
{
    return gradient(call, false);
}
tern_status_t cpu_log_softmax_grad(const tern_call *call)
{
    return gradient(call, true);
}
