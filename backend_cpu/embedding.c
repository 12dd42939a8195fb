/* embedding copies rows of a table; its gradient adds rows. The gradient sorts positions by
 * their row (counting, stable), so that every row of the table is one sum in the order of the
 * indices, whichever thread makes it. Indices are checked before anything is written. */
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

typedef struct embedding_job {
    const tern_view *indices;
    const char *from;
    char *to;
    int64_t rows, n; /* of the table; elements of a row */
    int64_t row_bytes;
    int dtype;
    const int64_t *starts; /* rows + 1: where a row's positions begin in `order` */
    const int64_t *order;
} embedding_job;

static inline int64_t index_at(const tern_view *indices, int64_t i)
{
    return indices->dtype == TERN_I64 ? ((const int64_t *)indices->data)[i]
                                      : ((const int32_t *)indices->data)[i];
}

static tern_status_t check_indices(const tern_call *call, const tern_view *indices, int64_t rows)
{
    for (int64_t i = 0; i < indices->numel; i++) {
        const int64_t index = index_at(indices, i);
        if ((uint64_t)index >= (uint64_t)rows)
            return call->host->fail(TERN_ERR_INDEX,
                                    "index %lld at position %lld is outside the table, which has "
                                    "%lld rows, numbered from 0",
                                    (long long)index, (long long)i, (long long)rows);
    }
    return TERN_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

#define COPY_ELEMENTS(T)                                                         \
    do {                                                                         \
        for (int64_t i = begin; i < end; i++)                                    \
            ((T *)(void *)job->to)[i] =                                          \
                ((const T *)(const void *)job->from)[index_at(job->indices, i)]; \
    } while (0)

static void run_copy(void *context, int64_t begin, int64_t end)
{
    const embedding_job *job = context;
    const int64_t bytes = job->row_bytes;
    if (bytes == 4)
        COPY_ELEMENTS(uint32_t);
    else if (bytes == 8)
        COPY_ELEMENTS(uint64_t);
    else
        for (int64_t i = begin; i < end; i++)
            memcpy(job->to + i * bytes, job->from + index_at(job->indices, i) * bytes,
                   (size_t)bytes);
}

tern_status_t cpu_embedding(const tern_call *call)
{
    const tern_view *weight = call->in[0];
    const tern_view *indices = call->in[1];
    embedding_job job = { .indices = indices, .from = weight->data, .to = call->out[0]->data };
    const tern_status_t status = check_indices(call, indices, weight->shape[0]);
    if (status != TERN_OK || call->out[0]->numel == 0)
        return status;
    job.row_bytes = weight->numel / weight->shape[0] * cpu_dtype_size(weight->dtype);
    const int64_t bytes = 2 * indices->numel * job.row_bytes;
    cpu_rows_run(call, bytes, 0, indices->numel, cpu_rows_grain(job.row_bytes), run_copy, &job);
    return TERN_OK;
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* starts and order of a stable counting sort; `memory` holds rows + 1 + numel numbers. */
static void sort_positions(embedding_job *job, int64_t *memory)
{
    int64_t *starts = memory;
    int64_t *order = memory + job->rows + 1;
    memset(starts, 0, (size_t)(job->rows + 1) * sizeof *starts);
    for (int64_t i = 0; i < job->indices->numel; i++)
        starts[index_at(job->indices, i) + 1]++;
    for (int64_t row = 0; row < job->rows; row++)
        starts[row + 1] += starts[row];
    /* filling moves each start to its end: the next row's start; then all move back by one */
    for (int64_t i = 0; i < job->indices->numel; i++)
        order[starts[index_at(job->indices, i)]++] = i;
    memmove(starts + 1, starts, (size_t)job->rows * sizeof *starts);
    starts[0] = 0;
    job->starts = starts;
    job->order = order;
}

static void run_sums(void *context, int64_t begin, int64_t end)
{
    const embedding_job *job = context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t count = job->starts[row + 1] - job->starts[row];
        char *out = job->to + row * job->row_bytes;
        if (count == 0)
            memset(out, 0, (size_t)job->row_bytes);
        else
            CPU_ISA_PICK(cpu_rows_gather_sum)
        (job->dtype, out, job->from, job->n, job->order + job->starts[row], count);
    }
}

tern_status_t cpu_embedding_grad(const tern_call *call)
{
    const tern_view *grad = call->in[0];
    const tern_view *indices = call->in[1];
    const tern_view *out = call->out[0];
    embedding_job job = { .indices = indices, .from = grad->data, .to = out->data };
    job.rows = out->shape[0];
    job.dtype = grad->dtype;
    const tern_status_t status = check_indices(call, indices, job.rows);
    if (status != TERN_OK || out->numel == 0)
        return status;
    job.n = out->numel / job.rows;
    job.row_bytes = job.n * cpu_dtype_size(grad->dtype);
    const int64_t numbers = job.rows + 1 + indices->numel;
    int64_t *memory = call->host->scratch(call, numbers * (int64_t)sizeof *memory);
    if (memory == NULL)
        return TERN_ERR_OOM;
    sort_positions(&job, memory);
    const int64_t bytes = (grad->numel + out->numel) * cpu_dtype_size(grad->dtype);
    cpu_rows_run(call, bytes, grad->numel, job.rows, cpu_rows_grain(job.n), run_sums, &job);
    return TERN_OK;
}
