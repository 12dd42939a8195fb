/* tril, triu: rows of matrices are copied up to, or from, a column, and filled with zeros. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

typedef struct triangle_job {
    char *out;
    const char *in;
    int64_t rows, columns, size;
    int64_t diagonal;
    bool upper;
} triangle_job;

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const triangle_job *job = context;
    const int64_t size = job->size, bytes = job->columns * size;
    for (int64_t r = begin; r < end; r++) {
        char *out = job->out + r * bytes;
        const char *in = job->in + r * bytes;
        /* columns below `cut` are on the lower side */
        int64_t cut = r % job->rows + job->diagonal + !job->upper;
        cut = (cut < 0 ? 0 : cut > job->columns ? job->columns : cut) * size;
        if (job->upper) {
            memset(out, 0, (size_t)cut);
            memcpy(out + cut, in + cut, (size_t)(bytes - cut));
        } else {
            memcpy(out, in, (size_t)cut);
            memset(out + cut, 0, (size_t)(bytes - cut));
        }
    }
}

static tern_status_t triangle(const tern_call *call, bool upper)
{
    const tern_view *out = call->out[0];
    if (out->numel == 0)
        return TERN_OK;
    const int64_t rows = out->shape[out->ndim - 2], columns = out->shape[out->ndim - 1];
    const int64_t diagonal = ((const tern_attr_triangle *)call->attr)->diagonal;
    triangle_job job = { .out = out->data,
                         .in = call->in[0]->data,
                         .rows = rows,
                         .columns = columns,
                         .size = cpu_dtype_size(out->dtype),
                         .upper = upper };
    job.diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
    cpu_rows_run(call, 2 * out->numel * job.size, 0, out->numel / columns, cpu_rows_grain(columns),
                 run_rows, &job);
    return TERN_OK;
}

tern_status_t cpu_tril(const tern_call *call)
{
    return triangle(call, false);
}

tern_status_t cpu_triu(const tern_call *call)
{
    return triangle(call, true);
}
